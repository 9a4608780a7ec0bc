#!/usr/bin/env python3
"""Makes the files of `npcov demo` (`make demo-data`).

    scripts/make_demo.py [--data data/fashion-mnist] [--model models/clothing-0.onnx]
        [--output crates/cli/demo]

300 training images of each kind of Fashion-MNIST, chosen with seed 0 and in
the order of the original, and after them the first 1,000 test images: `images.bin` holds
their pixels, `kinds.bin` the label of each. Grey levels are multiples of eight: nobody
sees the difference, and the files, which are part of the program, are half as large.
`npcov demo` unpacks them (`crates/cli/src/demo_images.rs` says how they are packed) and knows
which kinds make the groups that the network was taught. The same bytes every time, in about a
minute. The model is one that `scripts/train/merged.py clothing --seeds 0 --epochs 4` trains.
Needs numpy and `scripts/get_data.py`.
"""

import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np

PER_KIND = 300
TEST = 1000
GREY_STEP = 8
BITS = 5
REMEMBERED = 127


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
    test_pixels, test_kinds = read("t10k", "images-idx3"), read("t10k", "labels-idx1")
    images = np.concatenate([pixels[rows], test_pixels[:TEST]])
    kinds = np.concatenate([kinds[rows], test_kinds[:TEST]])
    (options.output / "images.bin").write_bytes(pack(levels(images)))
    (options.output / "kinds.bin").write_bytes(kinds.astype(np.uint8).tobytes())
    shutil.copyfile(options.model, options.output / "model.onnx")


def levels(pixels):
    """The step that is nearest, up to the largest that a byte holds."""
    return np.minimum((pixels.astype(int) + GREY_STEP // 2) // GREY_STEP, 255 // GREY_STEP)


def pack(images):
    """The bits of all levels in an arithmetic code, each by how often it was set so far in such surroundings."""
    around = np.pad(images, ((0, 0), (1, 0), (1, 1)))
    west, north = around[:, 1:, :-2], around[:, :-1, 1:-1]
    north_west, north_east = around[:, :-1, :-2], around[:, :-1, 2:]
    expected = np.clip(west + north - north_west, np.minimum(west, north), np.maximum(west, north))
    differ = abs(west - north_west) + abs(north - north_west) + abs(north - north_east)
    size = 1 << BITS
    places = (expected * size + np.minimum(differ, size - 1)) * size
    likely, seen = [1 << 15] * size**3, [0] * size**3
    low, high, packed = 0, 0xFFFFFFFF, bytearray()
    for level, place in zip(images.reshape(-1).tolist(), places.reshape(-1).tolist()):
        bits = 1
        for shift in range(BITS - 1, -1, -1):
            at = place + bits
            bit = level >> shift & 1
            bits = 2 * bits + bit
            chance, weight = likely[at], 2 * seen[at] + 3
            middle = low + ((high - low) * chance >> 16)
            if bit:
                high = middle
                likely[at] = chance + 2 * (0xFFFF - chance) // weight
            else:
                low = middle + 1
                likely[at] = chance - 2 * chance // weight
            if seen[at] < REMEMBERED:
                seen[at] += 1
            while (low ^ high) >> 24 == 0:
                packed.append(low >> 24)
                low = low << 8 & 0xFFFFFFFF
                high = (high << 8 | 0xFF) & 0xFFFFFFFF
    return bytes(packed + low.to_bytes(4, "big"))


def read_idx(path):
    """An IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, data."""
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


if __name__ == "__main__":
    main()
