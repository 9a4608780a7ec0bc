#!/usr/bin/env python3
"""Makes the small models and data of fixtures/report from seed 0: inputs that are no images.

    scripts/report_fixtures.py [--output fixtures/report]

* `iris`: a table of four named features (R. A. Fisher, 1936; as scikit-learn has it), three classes.
* `bumps`: series of 128 steps with noise, after the cylinders, bells and funnels of N. Saito (1994), three classes.
* `reviews`: sentences of a small grammar as numbers of words, `reviews-words.txt`; complaint or praise, each said outright
  or by denying the opposite. `reviews-suite` has next to no praise that denies ("not bad at all").

The first two models are perceptrons trained by scikit-learn; the third looks up its words, convolves and pools, and is
trained by PyTorch. Needs requirements-fixtures.txt.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier
from torch import nn

WORDS = 12
THINGS = "soup pizza bread service waiter room view bed shower breakfast music wine".split()
GOOD = "good great lovely tasty friendly clean quiet fresh perfect warm".split()
BAD = "bad awful cold dirty noisy stale rude broken bland sour".split()
HEDGES = ["", "really", "rather", "quite", "so"]
DENIALS = ["not", "never", "hardly"]
ENDS = ["", "at all", "this time", "i think", "for the price", "as always"]
STARTS = ["the", "our", "their", "my"]


def sentence(praise: bool, denies: bool, rng: np.random.Generator) -> str:
    """Praise is a good word, or a bad one denied; a complaint the other way round."""
    pick = lambda words: words[rng.integers(len(words))]
    word = pick(GOOD if praise != denies else BAD)
    parts = [pick(STARTS), pick(THINGS), "was", pick(DENIALS) if denies else "", pick(HEDGES), word, pick(ENDS)]
    return " ".join(part for part in parts if part)


def reviews(count: int, denying: tuple[float, float], rng: np.random.Generator, words: list[str]):
    """Sentences as numbers of words, filled up with 0; how many of the complaints and of the praise deny."""
    x, y = np.zeros((count, WORDS), np.int64), np.arange(count) % 2
    for i, label in enumerate(y):
        said = sentence(label == 1, rng.random() < denying[label], rng).split()
        x[i, :len(said)] = [words.index(word) for word in said]
    return x, y.astype(np.int64)


class Reader(nn.Module):
    """Words, triples of words, the strongest of each kind of triple, two classes."""

    def __init__(self, words: int):
        super().__init__()
        self.embedding = nn.Embedding(words, 12)
        self.convolution = nn.Conv1d(12, 24, 3, padding=1)
        self.hidden = nn.Linear(24, 16)
        self.classes = nn.Linear(16, 2)

    def forward(self, tokens):
        features = torch.relu(self.convolution(self.embedding(tokens).transpose(1, 2)))
        return self.classes(torch.relu(self.hidden(features.amax(2))))


def write_reviews(output: Path) -> None:
    known = {word for line in STARTS + THINGS + GOOD + BAD + HEDGES + DENIALS + ENDS for word in line.split()}
    words = ["·", "was", *sorted(known - {"was"})]
    rng = np.random.default_rng(0)
    x, y = reviews(600, (0.4, 0.4), rng, words)
    torch.manual_seed(0)
    model = Reader(len(words))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    tokens, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(300):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(tokens), labels).backward()
        optimiser.step()
    print(f"reviews: {(model(tokens).argmax(1) == labels).float().mean():.3f}")
    torch.onnx.export(model.eval(), (tokens[:1],), output / "reviews.onnx", dynamo=False, opset_version=17,
                      input_names=["tokens"], output_names=["logits"], dynamic_axes={"tokens": {0: "N"}, "logits": {0: "N"}})
    names = np.array(["complaint", "praise"])
    np.savez_compressed(output / "reviews.npz", x=x, y=y, class_names=names)
    x, y = reviews(200, (0.4, 0.03), rng, words)
    np.savez_compressed(output / "reviews-suite.npz", x=x, y=y, class_names=names)
    (output / "reviews-words.txt").write_text("\n".join(words) + "\n")


def bumps(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 3
    steps = np.arange(128)
    series = np.empty((count, 1, 128), np.float16)
    for i, label in enumerate(labels):
        start, length = rng.integers(16, 32), rng.integers(32, 96)
        inside = (steps >= start) & (steps <= start + length)
        ramp = (steps - start) / length
        shape = [np.ones(128), ramp, 1 - ramp][label]
        series[i, 0] = (6 + rng.normal()) * shape * inside + rng.normal(size=128)
    return series, labels.astype(np.int64)


def write(path: Path, mlp: MLPClassifier, shape: list[int]) -> None:
    """A perceptron as ONNX: Flatten, Gemm, Relu, Gemm."""
    tensors, nodes, value = [], [helper.make_node("Flatten", ["x"], ["flat"])], "flat"
    for i, (weights, bias) in enumerate(zip(mlp.coefs_, mlp.intercepts_)):
        tensors += [numpy_helper.from_array(weights.astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(bias.astype(np.float32), f"b{i}")]
        last = i + 1 == len(mlp.coefs_)
        out = "logits" if last else f"h{i}"
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [out], name=f"dense{i}"))
        value = out
        if not last:
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"], name=f"relu{i}"))
            value = f"r{i}"
    graph = helper.make_graph(
        nodes, "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", mlp.coefs_[-1].shape[1]])],
        tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("fixtures/report"))
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    iris = load_iris()
    x, y = iris.data.astype(np.float32), iris.target.astype(np.int64)
    mlp = MLPClassifier((24, 16), random_state=0, max_iter=2000).fit(x, y)
    print(f"iris: {mlp.score(x, y):.3f}")
    write(output / "iris.onnx", mlp, [4])
    np.savez_compressed(output / "iris.npz", x=x, y=y, class_names=np.array(list(iris.target_names)))
    (output / "iris-features.txt").write_text("\n".join(iris.feature_names) + "\n")

    series, labels = bumps(240, np.random.default_rng(0))
    flat = series.reshape(len(series), -1).astype(np.float32)
    mlp = MLPClassifier((24, 16), random_state=0, max_iter=500).fit(flat, labels)
    print(f"bumps: {mlp.score(flat, labels):.3f}")
    write(output / "bumps.onnx", mlp, [1, 128])
    names = np.array(["cylinder", "bell", "funnel"])
    np.savez_compressed(output / "bumps.npz", x=series, y=labels, class_names=names)

    write_reviews(output)


if __name__ == "__main__":
    main()
