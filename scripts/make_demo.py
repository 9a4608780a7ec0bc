#!/usr/bin/env python3
"""Makes the files of `npcov demo` (`make demo-data`).

    scripts/make_demo.py [--data data/fashion-mnist] [--model models/clothing-0.onnx]
        [--output crates/cli/demo]

300 training images of each kind of Fashion-MNIST, chosen with seed 0 and in
the order of the original, as `train.npz`, and the first 1,000 test images as
`test.npz`: `x` (28 x 28 bytes), `kind` (the label of Fashion-MNIST) and `y` (the
group of kinds that the network was taught), whose names are in `train.npz` as
`class_names`. Grey levels are multiples of eight: nobody sees the difference, and the files, which are part
of the program, are half as large. The same bytes every time. The model is one that
`scripts/train/merged.py clothing --seeds 0 --epochs 4` trains. Needs numpy and `scripts/get_data.py`.
"""

import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np

PER_KIND = 300
TEST = 1000
GREY_STEP = 8
GROUPS = {
    "tops and dresses": [0, 2, 3, 4, 6],
    "shoes": [5, 7, 9],
    "trousers and bags": [1, 8],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/fashion-mnist"))
    parser.add_argument("--model", type=Path, default=Path("models/clothing-0.onnx"))
    parser.add_argument("--output", type=Path, default=Path("crates/cli/demo"))
    options = parser.parse_args()

    def read(part, what):
        return read_idx(options.data / f"{part}-{what}-ubyte.gz")

    options.output.mkdir(parents=True, exist_ok=True)
    pixels, kinds = read("train", "images-idx3"), read("train", "labels-idx1")
    random = np.random.default_rng(0)
    chosen = [
        random.choice(np.flatnonzero(kinds == kind), PER_KIND, replace=False)
        for kind in range(10)
    ]
    rows = np.sort(np.concatenate(chosen))
    names = np.array(list(GROUPS))
    write(options.output / "train.npz", pixels[rows], kinds[rows], class_names=names)
    pixels, kinds = read("t10k", "images-idx3"), read("t10k", "labels-idx1")
    write(options.output / "test.npz", pixels[:TEST], kinds[:TEST])
    shutil.copyfile(options.model, options.output / "model.onnx")


def write(path, pixels, kinds, **more):
    groups = np.zeros(10, np.uint8)
    for group, members in enumerate(GROUPS.values()):
        groups[members] = group
    # The step that is nearest, up to the largest that a byte holds.
    steps = np.minimum((pixels.astype(int) + GREY_STEP // 2) // GREY_STEP, 255 // GREY_STEP)
    pixels = (steps * GREY_STEP).astype(np.uint8)
    np.savez_compressed(path, x=pixels, y=groups[kinds], kind=kinds, **more)


def read_idx(path):
    """An IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, data."""
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


if __name__ == "__main__":
    main()
