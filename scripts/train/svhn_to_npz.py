#!/usr/bin/env python3
"""Writes SVHN's official .mat files as npz files that npcov reads.

    scripts/train/svhn_to_npz.py [--data data]

`data/svhn/train_32x32.mat` becomes `data/svhn/train.npz`, and `test_32x32.mat` becomes `test.npz`:
`x` (images x 3 x 32 x 32, bytes) and `y` (digits 0 to 9). Then

    npcov predict models/alexnet-svhn.onnx --data data/svhn/test.npz --divide 255

Needs numpy and scipy.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import images


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    folder = parser.parse_args().data
    for part in ("train", "test"):
        try:
            x, y = images.svhn(folder, part)
        except images.Missing as reason:
            sys.exit(str(reason))
        path = folder / "svhn" / f"{part}.npz"
        np.savez(path, x=x, y=y.astype(np.int64))
        print(f"{path}: {len(x)} images")


if __name__ == "__main__":
    main()
