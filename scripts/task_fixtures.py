#!/usr/bin/env python3
"""Makes the fixtures with tables, numbers and several inputs.

    scripts/task_fixtures.py

    fixtures/prices.onnx        9-16-8-1, the price of a diamond (see train/prices.py)
    fixtures/prices.csv         600 diamonds that it was trained on, and their prices
    fixtures/prices.parquet     the same rows, as pyarrow writes them
    fixtures/prices-test.csv    200 others
    fixtures/two-inputs.onnx    images of Fashion-MNIST and a mask of classes: 784-32-10, times the mask
    fixtures/one-logit.onnx     784-16-1 without a sigmoid: footwear (classes 5, 7, 9) or not
    fixtures/distances.onnx     784-32-10: how far an image is from each class; the smallest counts
    fixtures/two-numbers.onnx   784-16-2: mean and standard deviation of an image's pixels
    fixtures/tasks.json         what ONNX Runtime computes

Needs requirements-fixtures.txt; `make data` for Fashion-MNIST.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow
import pyarrow.parquet
import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "train"))
import prices  # noqa: E402

FIXTURES = ROOT / "fixtures"
FASHION = ROOT / "data" / "fashion-mnist"


def fashion():
    read = lambda name, skip: np.frombuffer(gzip.open(FASHION / name).read()[skip:], np.uint8)
    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:6000]
    return images.astype(np.float32) / 255, read("train-labels-idx1-ubyte.gz", 8)[:6000].astype(np.int64)


def train(model, loss, batches=400):
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(batches):
        optimiser.zero_grad()
        loss(step).backward()
        optimiser.step()
    return model.eval()


def part(step, x):
    """Rows of a step, as a slice that goes round."""
    start = step * 100 % len(x)
    return slice(start, start + 100)


class Masked(nn.Module):
    """Logits of the classes that a mask leaves."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, mask):
        return self.net(image.flatten(1)) * mask.to(torch.float32)


class Distances(nn.Module):
    """How far an image is from each class: logits with their sign turned round in the last layer."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        with torch.no_grad():
            net[-1].weight.neg_()
            net[-1].bias.neg_()

    def forward(self, image):
        return self.net(image)


def export(model, inputs, names, path):
    axes = {name: {0: "batch"} for name in [*names, "y"]}
    torch.onnx.export(
        model, tuple(inputs), path, input_names=names, output_names=["y"], dynamic_axes=axes, dynamo=False
    )


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = prices.table()
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    learnt = prices.fit(prices.Prices(rows[:4096, :-1], rows[:4096, -1], (16, 8)), rows[:4096], 60)
    prices.export(learnt, FIXTURES / "prices.onnx")
    prices.write(FIXTURES / "prices.csv", rows[:600])
    prices.write(FIXTURES / "prices-test.csv", rows[4096:4296])
    columns = [*prices.COLUMNS, prices.LABEL]
    grades = set(prices.GRADES)
    column = lambda i, name: rows[:600, i].astype(np.int32 if name in grades else np.float64)
    table = {name: column(i, name) for i, name in enumerate(columns)}
    pyarrow.parquet.write_table(pyarrow.table(table), FIXTURES / "prices.parquet")

    images, labels = fashion()
    x, y = torch.tensor(images), torch.tensor(labels)
    net = lambda hidden, outputs: nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    classifier = net(32, 10)
    train(classifier, lambda s: nn.functional.cross_entropy(classifier(x[part(s, x)]), y[part(s, x)]))
    export(Masked(classifier), [x[:1].reshape(1, 1, 28, 28), torch.ones(1, 10, dtype=torch.int64)],
           ["image", "mask"], FIXTURES / "two-inputs.onnx")
    export(Distances(classifier), [x[:1]], ["image"], FIXTURES / "distances.onnx")
    footwear = torch.isin(y, torch.tensor([5, 7, 9])).to(torch.float32)[:, None]
    logit = net(16, 1)
    loss = nn.functional.binary_cross_entropy_with_logits
    train(logit, lambda s: loss(logit(x[part(s, x)]), footwear[part(s, x)]))
    export(logit, [x[:1]], ["image"], FIXTURES / "one-logit.onnx")
    spread = torch.stack([x.mean(1), x.std(1)], 1)
    numbers = net(16, 2)
    train(numbers, lambda s: nn.functional.mse_loss(numbers(x[part(s, x)]), spread[part(s, x)]))
    export(numbers, [x[:1]], ["image"], FIXTURES / "two-numbers.onnx")

    # What ONNX Runtime computes of the first rows.
    run = lambda name, feed: onnxruntime.InferenceSession(FIXTURES / name).run(None, feed)[0].tolist()
    test = np.load(FIXTURES / "fashion-1000.npz")["x"][:5].astype(np.float32) / 255
    ones = np.ones((5, 10), np.int64)
    ones[:, ::2] = 0
    flat = {"image": test.reshape(5, 784)}
    expected = {
        "prices": run("prices.onnx", {"diamond": rows[4096:4101, :-1].astype(np.float32)}),
        "two-inputs": run("two-inputs.onnx", {"image": test.reshape(5, 1, 28, 28), "mask": ones}),
        "one-logit": run("one-logit.onnx", flat),
        "distances": run("distances.onnx", flat),
        "two-numbers": run("two-numbers.onnx", flat),
    }
    (FIXTURES / "tasks.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
