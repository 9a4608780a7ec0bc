#!/usr/bin/env python3
"""Does a network become better by the inputs that an order chooses? Trained again with them, for each order of `npcov select`.

    benches/retrain/run.py --npcov target/release/npcov [--data data] [--base 2000] [--pool 8000] [--count 500] \
        [--seeds 3] [--epochs 12] [--whole] [--keep lab/retrain] [-o retrain.json]

A small network learns the first `--base` images of Fashion-MNIST, and its decision graph is built of them. Of the next
`--pool` images, each order of scripts/results.py chooses `--count`. Then a network is trained from the same initial weights
on the first images and the chosen ones, with their labels, and its accuracy on the 10,000 test images is what counts.
Seeds differ in initial weights and in the order of images; beside all orders stands the network without more images and, with
`--whole`, one with the whole pool. `APFD` is how early misclassified images of the pool come (.5 by chance). What is in `--keep` is
not computed again. Needs scripts/train/requirements.txt.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "train")]

import architectures  # noqa: E402
import images  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import train  # noqa: E402
from results import ORDERS  # noqa: E402

RECIPE = train.Recipe(None, None, "", 0, epochs=0, full_epochs=0, rate=3e-3)


class Trial:
    """The trainings of one seed."""

    def __init__(self, options, seed):
        self.options, self.seed = options, seed
        self.folder = options.keep / str(seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        pixels, labels = images.fashion_mnist(options.data, "train")
        self.base = (pixels[: options.base], labels[: options.base])
        end = options.base + options.pool
        self.pool = (pixels[options.base : end], labels[options.base : end])
        self.test = images.fashion_mnist(options.data, "test")

    def train(self, rows):
        """A network of the first images and some rows of the pool, with its accuracy."""
        torch.manual_seed(self.seed)
        network = architectures.small(10)
        pixels, labels = (np.concatenate([a, b[rows]]) for a, b in zip(self.base, self.pool))
        for _ in train.train(network, RECIPE, pixels, labels, self.options.epochs, False):
            pass
        return network, train.count_correct(network, *self.test) / len(self.test[0])

    def npcov(self, *words):
        command = [self.options.npcov, *map(str, words), "--quiet"]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=self.folder).stdout

    def prepare(self):
        """The first network and its decision graph; its accuracy."""
        record = self.folder / "base.json"
        if not record.exists():
            network, accuracy = self.train([])
            train.export(network, self.base[0].shape[1:], self.folder / "base.onnx")
            for name, (x, y) in {"base": self.base, "pool": self.pool}.items():
                np.savez(self.folder / f"{name}.npz", x=x, y=y.astype(np.int64))
            self.npcov("build", "base.onnx", "--data", "base.npz", "--divide", 255, "-o", "graph.npcov")
            record.write_text(json.dumps(accuracy))
        return json.loads(record.read_text())

    def chosen(self, order):
        """The accuracy with the images that an order chooses, and its APFD."""
        record = self.folder / f"{order.replace(':', '-')}.json"
        if not record.exists():
            text = self.npcov("select", "graph.npcov", "--data", "pool.npz", "--by", order, "--seed", self.seed,
                              "--count", self.options.count, "-o", "chosen.npz")
            apfd = float(re.search(r"APFD\D*([\d.]+)", text)[1])
            with np.load(self.folder / "chosen.npz") as arrays:
                rows = arrays["index"]
            record.write_text(json.dumps([self.train(rows)[1], apfd]))
        return json.loads(record.read_text())

    def whole(self):
        record = self.folder / "whole.json"
        if not record.exists():
            record.write_text(json.dumps(self.train(np.arange(self.options.pool))[1]))
        return json.loads(record.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default=str(ROOT / "target/release/npcov"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--base", type=int, default=2000)
    parser.add_argument("--pool", type=int, default=8000)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--orders", nargs="+", default=ORDERS)
    parser.add_argument("--keep", type=Path, default=Path("lab/retrain"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.npcov, options.keep = str(Path(options.npcov).resolve()), options.keep.resolve()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    found = {"nothing": [], **{order: [] for order in options.orders}}
    for seed in range(options.seeds):
        trial = Trial(options, seed)
        found["nothing"].append([trial.prepare(), None])
        for order in options.orders:
            found[order].append(trial.chosen(order))
            print(f"seed {seed}: {order} {found[order][-1]}", file=sys.stderr, flush=True)
        if options.whole:
            found.setdefault("the whole pool", []).append([trial.whole(), None])
    random = [accuracy for accuracy, _ in found.get("random", found["nothing"])]
    print("| added | accuracy | spread of seeds | above random, seed by seed | APFD |")
    print("|---|---:|---:|---|---:|")
    rows = sorted(found.items(), key=lambda item: -mean(a for a, _ in item[1]))
    for name, trials in rows:
        accuracies = [accuracy for accuracy, _ in trials]
        spread = stdev(accuracies) if len(accuracies) > 1 else 0
        above = ", ".join(f"{a - r:+.2%}" for a, r in zip(accuracies, random))
        apfd = f"{mean(apfd for _, apfd in trials):.3f}" if trials[0][1] is not None else ""
        print(f"| {name} | {mean(accuracies):.2%} | {spread:.2%} | {above} | {apfd} |")
    if options.output:
        settings = {name: getattr(options, name) for name in ("base", "pool", "count", "seeds", "epochs")}
        options.output.write_text(json.dumps({"settings": settings, "accuracy and APFD": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
