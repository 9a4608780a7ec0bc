#!/usr/bin/env python3
"""How much memory a decision graph of a million training inputs takes, and measuring with it.

    benches/coverage/million.py [--npcov target/release/npcov] [--inputs 60000 1000000]
        [--model fixtures/lenet.onnx] [--train data/fashion-mnist] [--suite fixtures/fashion-1000.npz]

The training images are repeated, each time moved by some pixels, until there are
enough. Prints peak memory (resident) and time for each number of inputs: of
`npcov build` with all criteria, and of `npcov cover` on the suite. Both may have
256 files open, whatever the number of inputs. The files need about 3 GB on the
disk for a million inputs of 784 pixels.
"""

import argparse
import gzip
import resource
import sys
import tempfile
import time
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
    parser.add_argument("--inputs", type=int, nargs="*", default=[60_000, 1_000_000])
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    images = idx(options.train / "train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = idx(options.train / "train-labels-idx1-ubyte.gz", 8)
    print("| training inputs | build | peak memory | cover | peak memory |")
    print("|---|---|---|---|---|")
    for count in options.inputs:
        with tempfile.TemporaryDirectory(dir="target") as folder:
            data, graph = Path(folder) / "train.npz", Path(folder) / "graph.npcov"
            write(images, labels, count, data)
            scale = ["--divide", "255"]
            built = run([options.npcov, "build", options.model, "--data", data, *scale, "-o", graph])
            state = Path(folder) / "state.npcov"
            covered = run([options.npcov, "cover", graph, "--data", options.suite, "-o", state])
            print(f"| {count:,} | {built} | {covered} |", flush=True)


def idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def write(images, labels, count, path):
    """Images, the second time around moved by one pixel, and so on."""
    x = np.empty((count, 28, 28), np.uint8)
    for start in range(0, count, len(images)):
        turn = start // len(images)
        moved = np.roll(images, (turn % 5, turn // 5), axis=(1, 2))
        x[start : start + len(images)] = moved[: count - start]
    np.savez(path, x=x, y=np.resize(labels, count))


def run(command):
    start = time.monotonic()
    kibibytes = peak(command)
    return f"{time.monotonic() - start:.0f} s | {kibibytes / 1024:.0f} MiB"


if __name__ == "__main__":
    main()
