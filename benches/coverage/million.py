#!/usr/bin/env python3
"""How much memory a decision graph of a million training inputs takes, and measuring with it.

    benches/coverage/million.py [--npcov target/release/npcov] [--inputs 100000 1000000]
        [--model fixtures/lenet.onnx] [--train data/fashion-mnist] [--suite fixtures/fashion-1000.npz]
        [--clustering graph]
    benches/coverage/million.py --small [--npcov ...] [--inputs ...] [--clustering ...]

The training images are repeated, each time moved by some pixels, until there are
enough. With `--small`, a network of three layers of 16 neurons for 8 numbers and
10 classes is made up instead, with inputs for it, so that a million of them take
minutes (needs the Python package onnx). Prints peak memory (resident) and CPU
time for each number of inputs: of `npcov build` with all criteria, and of `npcov
cover` on a suite of 1,000. Both may have 256 files open, whatever the number of
inputs. The files need about 3 GB on the disk for a million inputs of 784 pixels.
"""

import argparse
import gzip
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from peak import peak  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--model", default="fixtures/lenet.onnx")
    parser.add_argument("--train", type=Path, default="data/fashion-mnist")
    parser.add_argument("--suite", default="fixtures/fashion-1000.npz")
    parser.add_argument("--inputs", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--clustering", default="graph")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    made = Small() if options.small else Images(options)
    print("| training inputs | build | peak memory | cover | peak memory |")
    print("|---|---|---|---|---|")
    for count in options.inputs:
        with tempfile.TemporaryDirectory(dir="target") as folder:
            folder = Path(folder)
            model, suite = made.files(folder)
            data, graph = folder / "train.npz", folder / "graph.npcov"
            made.write(count, data)
            how = [*made.flags, "--clustering", options.clustering]
            built = run([options.npcov, "build", model, "--data", data, *how, "-o", graph])
            state = folder / "state.npcov"
            covered = run([options.npcov, "cover", graph, "--data", suite, "-o", state])
            print(f"| {count:,} | {built} | {covered} |", flush=True)


class Images:
    """Images, the second time around moved by one pixel, and so on."""

    flags = ["--divide", "255"]

    def __init__(self, options):
        self.options = options
        self.images = idx(options.train / "train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        self.labels = idx(options.train / "train-labels-idx1-ubyte.gz", 8)

    def files(self, _folder):
        return self.options.model, self.options.suite

    def write(self, count, path):
        x = np.empty((count, 28, 28), np.uint8)
        for start in range(0, count, len(self.images)):
            turn = start // len(self.images)
            moved = np.roll(self.images, (turn % 5, turn // 5), axis=(1, 2))
            x[start : start + len(self.images)] = moved[: count - start]
        np.savez(path, x=x, y=np.resize(self.labels, count))


class Small:
    """A small network, and random inputs with the classes that it gives most of them."""

    flags = []

    def __init__(self):
        draw = np.random.default_rng(0)
        widths = [8, 16, 16, 16, 10]
        pairs = list(zip(widths, widths[1:]))
        self.weights = [draw.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32) for a, b in pairs]
        self.biases = [np.zeros(b, np.float32) for _, b in pairs]
        # Every class shall be met.
        self.biases[-1] -= self.logits(draw.normal(size=(10_000, 8)).astype(np.float32)).mean(axis=0)

    def logits(self, x):
        for weight, bias in zip(self.weights[:-1], self.biases):
            x = np.maximum(x @ weight + bias, 0)
        return x @ self.weights[-1] + self.biases[-1]

    def files(self, folder):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        nodes, constants, last = [], [], "x"
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            constants += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
            nodes.append(helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], [f"sum{i}"]))
            last = f"sum{i}"
            if i + 1 < len(self.weights):
                nodes.append(helper.make_node("Relu", [last], [f"layer{i}"]))
                last = f"layer{i}"
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])]
        outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", 10])]
        graph = helper.make_graph(nodes, "small", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.save(model, folder / "small.onnx")
        self.write(1_000, folder / "suite.npz", seed=2)
        return folder / "small.onnx", folder / "suite.npz"

    def write(self, count, path, seed=1):
        draw = np.random.default_rng(seed)
        x = draw.normal(size=(count, 8)).astype(np.float32)
        y = self.logits(x).argmax(axis=1)
        wrong = draw.random(count) < 0.1
        y[wrong] = draw.integers(0, 10, count)[wrong]
        np.savez(path, x=x, y=y)


def idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def run(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kibibytes = peak(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{seconds:.0f} s | {kibibytes / 1024:.1f} MiB"


if __name__ == "__main__":
    main()
