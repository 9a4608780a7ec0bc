#!/usr/bin/env python3
"""Compares the images that npcov gives a model with those of Pillow and torchvision.

    scripts/agreement_images.py FOLDER [--npcov target/release/npcov] [--count 500]
                                [--resize 256] [--crop 224] [--interpolation bilinear]

FOLDER has JPEG or PNG files, in folders of classes or not. A model that gives its input back shows
what enters it. Both sides decode by themselves, so differences between decoders are part of it
(npcov's is zune-jpeg, Pillow's libjpeg-turbo). Prints how many values differ by how many grey
levels; fails where fewer than 99.9 % are within one. Needs numpy, onnx, pillow and torchvision.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

WITHIN = 0.999


def identity(path, side):
    """A model whose logits are its input."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [0, -1])
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "identity",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3 * side * side])],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--resize", type=int, default=256)
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--interpolation", default="bilinear")
    options = parser.parse_args()
    suffixes = {".jpg", ".jpeg", ".png"}
    files = sorted(p for p in options.folder.rglob("*") if p.suffix.lower() in suffixes)
    # Spread over all classes.
    files = files[:: max(1, len(files) // options.count)][: options.count]
    mode = InterpolationMode[options.interpolation.upper()]
    resize, crop = Resize(options.resize, interpolation=mode), CenterCrop(options.crop)
    levels = np.zeros(256, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model, photos = folder / "identity.onnx", folder / "photos"
        photos.mkdir()
        identity(model, options.crop)
        colour = 0
        for i, file in enumerate(files):
            (photos / f"{i:05}{file.suffix.lower()}").symlink_to(file.resolve())
            colour += Image.open(file).mode == "RGB"
        command = [options.npcov, "predict", model, "--data", photos, "--output", folder / "out.npz", "--quiet"]
        command += ["--resize", str(options.resize), "--crop", str(options.crop)]
        command += ["--interpolation", options.interpolation]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        found = np.load(folder / "out.npz", mmap_mode="r")["logits"]
        for row, file in zip(found, files, strict=True):
            image = crop(resize(Image.open(file).convert("RGB")))
            expected = np.asarray(image).transpose(2, 0, 1).astype(np.int64).ravel()
            differences = np.abs(row.astype(np.int64) - expected)
            levels += np.bincount(differences, minlength=256)
    total = levels.sum()
    print(f"{len(files)} images ({colour} in colour), {total} values")
    for level in np.flatnonzero(levels):
        print(f"{level:4} levels apart  {levels[level]:10}  {levels[: level + 1].sum() / total:.6%} up to there")
    within = levels[:2].sum() / total
    print(f"within one level: {within:.4%}")
    sys.exit(int(within < WITHIN))


if __name__ == "__main__":
    main()
