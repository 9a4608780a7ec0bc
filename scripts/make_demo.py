#!/usr/bin/env python3
"""Makes the files of `npcov demo` (`make demo-data`).

    scripts/make_demo.py [--data data/fashion-mnist] [--output crates/cli/demo]

300 training images of each class of Fashion-MNIST, chosen with seed 0 and in
the order of the original, as `train.npz`: `x` (3000, 28, 28) and `y`, bytes.
The same bytes every time. The model and the test images are copied from
`fixtures/`. Needs numpy and `scripts/get_data.py`.
"""

import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np

CLASSES = 10
PER_CLASS = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/fashion-mnist"))
    parser.add_argument("--output", type=Path, default=Path("crates/cli/demo"))
    options = parser.parse_args()

    pixels = read_idx(options.data / "train-images-idx3-ubyte.gz")
    labels = read_idx(options.data / "train-labels-idx1-ubyte.gz")
    random = np.random.default_rng(0)
    chosen = [
        random.choice(np.flatnonzero(labels == label), PER_CLASS, replace=False)
        for label in range(CLASSES)
    ]
    rows = np.sort(np.concatenate(chosen))
    options.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.output / "train.npz", x=pixels[rows], y=labels[rows])
    fixtures = Path(__file__).resolve().parent.parent / "fixtures"
    shutil.copyfile(fixtures / "resnet8.onnx", options.output / "model.onnx")
    shutil.copyfile(fixtures / "fashion-1000.npz", options.output / "test.npz")


def read_idx(path):
    """An IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, data."""
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


if __name__ == "__main__":
    main()
