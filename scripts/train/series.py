#!/usr/bin/env python3
"""Trains a small recurrent network on a public set of series.

    scripts/train/series.py [--wheel aeon-*.whl] [--output models] [--data data/series]

JapaneseVowels (UCI; Kudo, Toyama and Shimbo 1999): nine speakers say two vowels, 12
coefficients of linear prediction at 7 to 29 moments. The package `aeon` on PyPI
carries it, brought to 29 moments; `pip download aeon --no-deps` fetches the wheel,
which need not be installed. Writes `vowels-train.npz` and `vowels-test.npz` (`x` [n,
29, 12] and `y`), and `vowels-lstm.onnx` or, with --cell GRU --both, `vowels-bigru.onnx`.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

INSIDE = "aeon/datasets/data/JapaneseVowels/JapaneseVowels_eq_{}.ts"


class Speaker(nn.Module):
    """A recurrent layer, and a dense one on the mean of its outputs."""

    def __init__(self, cell, hidden, both):
        super().__init__()
        self.recurrent = getattr(nn, cell)(12, hidden, batch_first=True, bidirectional=both)
        self.head = nn.Linear(hidden * (2 if both else 1), 9)

    def forward(self, x):
        return self.head(self.recurrent(x)[0].mean(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", type=Path, help="fetched from PyPI by default")
    parser.add_argument("--output", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data/series"))
    parser.add_argument("--cell", choices=["LSTM", "GRU"], default="LSTM")
    parser.add_argument("--both", action="store_true", help="both directions")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=150)
    options = parser.parse_args()

    parts = {}
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or fetch(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            for part in ("TRAIN", "TEST"):
                parts[part.lower()] = read_series(archive.read(INSIDE.format(part)).decode())
    options.data.mkdir(parents=True, exist_ok=True)
    for part, (x, y) in parts.items():
        np.savez_compressed(options.data / f"vowels-{part}.npz", x=x, y=y)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = Speaker(options.cell, options.hidden, options.both)
    train(network, *parts["train"], options.epochs)
    x, y = parts["test"]
    with torch.no_grad():
        right = int((network(torch.tensor(x)).argmax(1).numpy() == y).sum())
    print(f"{right} of {len(y)} test series are classified correctly")
    options.output.mkdir(parents=True, exist_ok=True)
    name = f"vowels-{'bi' if options.both else ''}{options.cell.lower()}.onnx"
    torch.onnx.export(
        network,
        (torch.tensor(x[:2]),),
        options.output / name,
        dynamo=False,
        input_names=["series"],
        output_names=["speaker"],
        dynamic_axes={"series": {0: "batch"}, "speaker": {0: "batch"}},
    )


def fetch(folder):
    command = [sys.executable, "-m", "pip", "download", "aeon", "--no-deps", "--dest", folder]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("aeon-*.whl"))


def read_series(text):
    """A `.ts` file of series of equal length: dimensions between colons, the class at the end."""
    lines = text.split("@data", 1)[1].split("\n")
    rows = [line.strip().split(":") for line in lines if line.strip()]
    x = np.array([[[float(v) for v in d.split(",")] for d in row[:-1]] for row in rows])
    y = np.array([int(float(row[-1])) - 1 for row in rows])
    return x.transpose(0, 2, 1).astype(np.float32), y


def train(network, x, y, epochs):
    x, y = torch.tensor(x), torch.tensor(y)
    optimiser = torch.optim.Adam(network.parameters(), 5e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(32):
            loss = functional.cross_entropy(network(x[chosen]), y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    network.eval()


if __name__ == "__main__":
    main()
