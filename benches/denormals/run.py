#!/usr/bin/env python3
"""What denormal weights cost: time of a network that is full of them, beside the same with others.

    benches/denormals/run.py [--npcov target/release/npcov] [--rounds 3]

A perceptron and a convolutional network, each with random weights, and with half
of them times 1e-39: these are denormal, and so is what is computed with them.
Prints seconds of computing (not of waiting) for `npcov predict` on images of
the fixtures and for `npcov build`, which explains them: the best of some rounds, in turns.
Also whether one and three threads write the same bytes.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).parent.parent.parent / "fixtures" / "fashion-1000.npz"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    npcov = options.npcov.resolve()
    print("| network | command | normal | denormal | ratio | same for 1 and 3 threads |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, network in (("perceptron", perceptron), ("convolutions", convolutions)):
            models = {}
            for kind, scale in (("normal", 1.0), ("denormal", 1e-39)):
                models[kind] = Path(folder) / f"{name}-{kind}.onnx"
                onnx.save(network(scale), models[kind])
            for command in ("predict", "build"):
                row = compare(npcov, command, models, Path(folder), options.rounds)
                print(f"| {name} | {command} | {row} |", flush=True)


def compare(npcov, command, models, folder, rounds):
    """The best seconds of each model, their ratio, and whether threads matter."""
    seconds = {kind: [] for kind in models}
    same = True
    for _ in range(rounds):
        for kind, model in models.items():
            written = []
            for threads in (1, 3):
                output = folder / "output"
                words = [npcov, command, model, "--data", DATA, "--threads", threads, "-o", output]
                if command == "build":
                    words += ["--criteria", "snpc,nc,kmnc"]
                took = run(words)
                if threads == 1:
                    seconds[kind].append(took)
                written.append(output.read_bytes())
                output.unlink()
            same &= written[0] == written[1]
    normal, denormal = (min(seconds[kind]) for kind in ("normal", "denormal"))
    return f"{normal:.2f} s | {denormal:.2f} s | {denormal / normal:.2f} | {'yes' if same else 'NO'}"


def run(words):
    """Seconds that a command computes."""
    child = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, words
    return usage.ru_utime + usage.ru_stime


def perceptron(scale):
    nodes, weights = [node("Flatten", ["x"], "flat")], []
    before, width = "flat", 784
    for i in range(3):
        weights.append(tensor(f"w{i}", (width, 512), scale))
        nodes += [node("MatMul", [before, f"w{i}"], f"m{i}"), node("Relu", [f"m{i}"], f"r{i}")]
        before, width = f"r{i}", 512
    weights.append(tensor("w", (width, 10), scale))
    return model([*nodes, node("MatMul", [before, "w"], "y")], weights)


def convolutions(scale):
    nodes, weights = [], []
    before, channels = "x", 1
    for i in range(3):
        weights.append(tensor(f"w{i}", (32, channels, 3, 3), scale))
        nodes += [node("Conv", [before, f"w{i}"], f"c{i}"), node("Relu", [f"c{i}"], f"r{i}")]
        before, channels = f"r{i}", 32
    nodes += [node("GlobalAveragePool", [before], "p"), node("Flatten", ["p"], "f")]
    weights.append(tensor("w", (32, 10), scale))
    return model([*nodes, node("MatMul", ["f", "w"], "y")], weights)


def node(op, inputs, output):
    return helper.make_node(op, inputs, [output], name=output)


def tensor(name, shape, scale):
    """The same random numbers for every scale, by which every other one is multiplied."""
    fan_in = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
    values = np.random.default_rng(len(name) + shape[0]).normal(size=shape) / np.sqrt(fan_in / 2)
    values.reshape(-1)[::2] *= scale
    return numpy_helper.from_array(values.astype(np.float32), name)


def model(nodes, weights):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 28, 28])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])
    graph = helper.make_graph(nodes, "denormals", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    main()
