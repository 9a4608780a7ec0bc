#!/usr/bin/env python3
"""How exact convolutions by tiles are on a trained model and real images.

    exactness.py MODEL DATA [--limit 256] [--divide 255] [--exactness target/release/examples/exactness]

Hands images to the example `exactness` of `npcov-engine`, which counts activations that are falsely
non-zero and max-pool windows with another winner than direct kernels choose. DATA is a
folder as `make data` writes it: test images of MNIST's kind, or of CIFAR-10.
"""

import argparse
import gzip
import subprocess
import tempfile
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--divide", type=float, default=255)
    parser.add_argument("--exactness", default="target/release/examples/exactness")
    options = parser.parse_args()
    images = read(Path(options.data))[: options.limit].astype(np.float32) / options.divide
    with tempfile.NamedTemporaryFile() as file:
        images.astype("<f4").tofile(file.name)
        subprocess.run([options.exactness, options.model, file.name], check=True)


def read(folder):
    """The bytes of the test images, one row for each."""
    idx = folder / "t10k-images-idx3-ubyte.gz"
    if idx.exists():
        return np.frombuffer(gzip.decompress(idx.read_bytes()), np.uint8, offset=16).reshape(-1, 28 * 28)
    rows = np.fromfile(folder / "test_batch.bin", np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return rows[:, 1:]


if __name__ == "__main__":
    main()
