"""Data for a report of the size that CIFAR-10 has: 12,000 training images and a suite of 10,000, of ten classes.

They are the images of fixtures/fashion-1000.npz, shifted and with noise, each several times. Of the suite, most images
of one class are others, so that there is a gap.

    python make_large.py fixtures/fashion-1000.npz FOLDER
"""

import pathlib
import sys

import numpy as np

NAMES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]


def varied(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The images, each moved by up to two pixels and with some noise."""
    out = np.empty_like(images)
    for i, image in enumerate(images):
        down, right = rng.integers(-2, 3, size=2)
        moved = np.roll(image, (down, right), axis=(0, 1)).astype(np.int16)
        out[i] = np.clip(moved + rng.normal(0, 12, image.shape), 0, 255)
    return out


def main() -> None:
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    data = np.load(source)
    x, y = data[data.files[0]], data[data.files[1]]
    x = x.reshape(len(x), 28, 28)
    rng = np.random.default_rng(0)
    names = np.array(NAMES)
    rows = np.arange(12_000) % len(x)
    np.savez_compressed(folder / "train.npz", x=varied(x[rows], rng), y=y[rows].astype(np.int64), class_names=names)
    keep = np.flatnonzero((y != 8) | (rng.random(len(y)) < 0.1))
    rows = keep[np.arange(10_000) % len(keep)]
    np.savez_compressed(folder / "suite.npz", x=varied(x[rows], rng), y=y[rows].astype(np.int64), class_names=names)


if __name__ == "__main__":
    main()
