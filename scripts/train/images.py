"""Training and test images in the formats that they are published in.

Every reader returns images as bytes, (count, channels, height, width), and labels.
"""

import gzip

import numpy as np


class Missing(Exception):
    """Files that are not there; the message says how to get them."""


def mnist(folder, part, name="mnist"):
    """MNIST's IDX files, as `scripts/get_data.py` writes them."""
    prefix = folder / name / {"train": "train", "test": "t10k"}[part]
    images = idx(prefix.with_name(f"{prefix.name}-images-idx3-ubyte.gz"))
    return images[:, None], idx(prefix.with_name(f"{prefix.name}-labels-idx1-ubyte.gz"))


def fashion_mnist(folder, part):
    """Fashion-MNIST, in MNIST's format."""
    return mnist(folder, part, "fashion-mnist")


def idx(path):
    """An IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, data."""
    if not path.exists():
        raise Missing(f"there is no `{path}`; `make data` fetches it")
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def cifar10(folder, part):
    """CIFAR-10's binary files: records of a label and 3072 pixels, red, green, blue."""
    names = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
    records = []
    for name in names[part]:
        path = folder / "cifar-10" / name
        if not path.exists():
            raise Missing(f"there is no `{path}`; `make data` fetches it")
        records.append(np.fromfile(path, np.uint8).reshape(-1, 3073))
    records = np.concatenate(records)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def svhn(folder, part):
    """SVHN's cropped digits, `train_32x32.mat` and `test_32x32.mat`: `X` of 32x32x3xN bytes, and
    `y`, in which the digit zero is 10."""
    from scipy.io import loadmat

    path = folder / "svhn" / f"{part}_32x32.mat"
    if not path.exists():
        raise Missing(
            f"there is no `{path}`; put the official files of the Street View House Numbers "
            "dataset (format 2, cropped digits) there"
        )
    arrays = loadmat(path)
    images, labels = arrays["X"], arrays["y"].reshape(-1)
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)):
        raise Missing(f"`{path}` holds no cropped digits: X is {images.dtype} {images.shape}")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels % 10
