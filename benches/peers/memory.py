#!/usr/bin/env python3
"""Peak memory of explaining 224x224 images through VGG16 (138 million weights).

    benches/peers/memory.py [--npcov target/release/npcov] [--inputs 32] [--threads 2]
        [--kernels winograd|direct]

The weights are random. Loading the model is included. Needs
requirements-fixtures.txt, and 1 GB on the disk.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import networks
import numpy as np
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))
from peak import peak  # noqa: E402


def vgg16_224():
    layers, channels = [], 3
    for width, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kernels", default="winograd")
    options = parser.parse_args()
    networks.NETWORKS["vgg16-224"] = (vgg16_224, (3, 224, 224), options.inputs)
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder) / "model.onnx", Path(folder) / "data.npz"
        networks.export("vgg16-224", model)
        rng = np.random.default_rng(0)
        np.savez(data, x=rng.integers(0, 256, (options.inputs, 3, 224, 224), np.uint8))
        command = [options.npcov, "explain", model, "--data", data, "--divide", "255"]
        command += ["--threads", str(options.threads), "--input-relevance"]
        command += ["--kernels", options.kernels]
        command += ["--output", Path(folder) / "out.npz"]
        kibibytes = peak(command)
    print(f"{options.inputs} inputs, {options.threads} threads: {kibibytes / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
