"""Relevance of LSTM and GRU as Arras et al. define it, step by step and unit by unit.

"Explaining and Interpreting LSTMs" (arXiv 1909.12114): in a product of a gate and
a signal, the signal gets everything; sums share by the epsilon rule. Written down
from the formulas, for one sequence at a time, in the precision of its input.

    scripts/oracle_recurrent.py [--fixtures fixtures]

writes the oracles of `lstm.onnx` and `gru.onnx` anew, and leaves the others.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

IMAGES = 4
TOOL = "definition by Arras et al. in float64 by scripts/oracle_recurrent.py"


@dataclass
class Weights:
    """The weights of a recurrent layer and of the dense layer behind it, as ONNX has them."""

    kind: str
    w: np.ndarray
    r: np.ndarray
    b: np.ndarray
    head: np.ndarray
    head_bias: np.ndarray

    @staticmethod
    def read(path):
        graph = onnx.load(path).graph
        tensors = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                tensors[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        layer = next(n for n in graph.node if n.op_type in ("LSTM", "GRU"))
        head = next(n for n in graph.node if n.op_type == "Gemm")
        assert layer.op_type == "LSTM" or any(
            a.name == "linear_before_reset" and a.i == 1 for a in layer.attribute
        )
        w, r, b = (tensors[name] for name in layer.input[1:4])
        return Weights(layer.op_type, w, r, b, tensors[head.input[1]], tensors[head.input[2]])

    def cast(self, dtype):
        numbers = (self.w, self.r, self.b, self.head, self.head_bias)
        return Weights(self.kind, *(n.astype(dtype) for n in numbers))


def explained(weights, images, absorb, epsilon):
    """Logits and relevances of the predicted class, for images whose rows are steps."""
    weights = weights.cast(images.dtype)
    rows = [one(weights, image[0], absorb, epsilon) for image in images]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def one(weights, x, absorb, epsilon):
    cell = Lstm if weights.kind == "LSTM" else Gru
    directions = [cell(weights, d, absorb, epsilon) for d in range(len(weights.w))]
    # The second direction starts at the end.
    sequences = [x, x[::-1]][: len(directions)]
    last = np.concatenate([d.run(s) for d, s in zip(directions, sequences)])
    logits = weights.head @ last + weights.head_bias
    predicted = logits.argmax()
    assert logits[predicted] > 0
    bias = weights.head_bias[predicted] if absorb else 0
    row, seed = weights.head[predicted][:, None], logits[predicted : predicted + 1]
    shares = linear(last[:, None], row, bias, seed, epsilon)
    arrays = {"logits": logits, "relevance.input": np.zeros_like(x)[None]}
    for i, (direction, share) in enumerate(zip(directions, np.split(shares, len(directions)))):
        at_input, at_units = direction.back(share)
        arrays["relevance.input"] += (at_input[::-1] if i else at_input)[None]
        arrays[f"relevance.{i}"] = at_units
    return arrays


def stabilised(z, epsilon):
    return z + epsilon * np.where(z >= 0, 1, -1)


def linear(x, w, bias, relevance, epsilon):
    """What each input gets: x (inputs x 1), w (inputs x units)."""
    z = (x * w).sum(0) + bias
    return (x * w / stabilised(z, epsilon) * relevance).sum(1)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class Cell:
    def __init__(self, weights, direction, absorb, epsilon):
        self.w = np.split(weights.w[direction], self.gates)
        self.r = np.split(weights.r[direction], self.gates)
        self.wb, self.rb = (np.split(b, self.gates) for b in np.split(weights.b[direction], 2))
        self.absorb, self.epsilon = absorb, epsilon
        self.steps = []

    def sums(self, gate, x, h):
        return self.w[gate] @ x + self.wb[gate] + self.r[gate] @ h + self.rb[gate]


class Lstm(Cell):
    gates = 4  # i, o, f, c

    def run(self, sequence):
        h = c = np.zeros(len(self.r[0]), sequence.dtype)
        for x in sequence:
            i, o, f = (sigmoid(self.sums(gate, x, h)) for gate in range(3))
            g = np.tanh(self.sums(3, x, h))
            before = (h, c)
            c = f * c + i * g
            h = o * np.tanh(c)
            self.steps.append((x, *before, c, i, f, g))
        return h

    def back(self, at_h):
        at_c = np.zeros_like(at_h)
        inputs, units = [], np.zeros_like(at_h)
        bias = self.wb[3] + self.rb[3] if self.absorb else 0
        for x, h, c_before, c, i, f, g in reversed(self.steps):
            at_c = at_c + at_h
            units += at_c
            whole = stabilised(c, self.epsilon)
            at_g = i * g / whole * at_c
            at_c = f * c_before / whole * at_c
            both = np.concatenate([x, h])[:, None]
            weights = np.concatenate([self.w[3].T, self.r[3].T])
            shares = linear(both, weights, bias, at_g, self.epsilon)
            inputs.append(shares[: len(x)])
            at_h = shares[len(x) :]
        return np.array(inputs[::-1]), units


class Gru(Cell):
    gates = 3  # z, r, h

    def run(self, sequence):
        h = np.zeros(len(self.r[0]), sequence.dtype)
        for x in sequence:
            z, r = (sigmoid(self.sums(gate, x, h)) for gate in range(2))
            before = h
            new = np.tanh(self.w[2] @ x + self.wb[2] + r * (self.r[2] @ h + self.rb[2]))
            h = (1 - z) * new + z * h
            self.steps.append((x, before, h, z, r, new))
        return h

    def back(self, at_h):
        inputs, units = [], np.zeros_like(at_h)
        for x, before, h, z, r, new in reversed(self.steps):
            units += at_h
            whole = stabilised(h, self.epsilon)
            at_new = (1 - z) * new / whole * at_h
            kept = z * before / whole * at_h
            bias = self.wb[2] + r * self.rb[2] if self.absorb else 0
            both = np.concatenate([x, before])[:, None]
            weights = np.concatenate([self.w[2].T, self.r[2].T * r])
            shares = linear(both, weights, bias, at_new, self.epsilon)
            inputs.append(shares[: len(x)])
            at_h = kept + shares[len(x) :]
        return np.array(inputs[::-1]), units


def cases():
    """Model, epsilon, what becomes of biases, and in words."""
    yield "lstm", 1e-3, "absorb", "with biases in denominators, as in their own program"
    yield "lstm", 1e-3, "ignore", "without biases"
    # Outputs of a GRU come closer to zero than the memory of an LSTM, and float32 loses digits.
    yield "gru", 1e-2, "ignore", "both directions, without biases"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    add(parser.parse_args().fixtures)


def add(folder):
    """Adds these oracles to the others."""
    output = folder / "oracles"
    images = np.load(folder / "fashion-1000.npz")["x"][:IMAGES, None].astype(np.float32) / 255
    file = output / "cases.json"
    described = [c for c in json.loads(file.read_text()) if "-arras-" not in c["name"]]
    for model, epsilon, bias, comment in cases():
        weights = Weights.read(folder / f"{model}.onnx")
        exact, single = (
            explained(weights, images.astype(dtype), bias == "absorb", epsilon)
            for dtype in (np.float64, np.float32)
        )
        error = max(np.abs(single[k] - v).max() / np.abs(v).max() for k, v in exact.items())
        name, rule = f"{model}-arras-{bias}", f"epsilon:{epsilon:g}"
        arrays = {k: v.astype(np.float32) for k, v in exact.items()}
        np.savez_compressed(output / f"{name}.npz", **arrays)
        described.append({
            "name": name,
            "model": f"{model}.onnx",
            "images": IMAGES,
            "tool": TOOL,
            "kind": "relevance",
            "arguments": ["--rule", rule, "--rule", f"{model.upper()}={rule}", "--bias", bias],
            "file": f"{name}.npz",
            "float32_error": float(f"{error:.1e}"),
            "comment": f"gates get nothing, {comment}",
        })
        print(json.dumps(described[-1]))
    lines = ",\n".join(f"  {json.dumps(item)}" for item in described)
    file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
