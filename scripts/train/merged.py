#!/usr/bin/env python3
"""Trains networks that are told less than there is to know, and writes their data.

    scripts/train/merged.py [parity cluttered clothing fashion animals] [--seeds 0 1 2]
                            [--data data] [--output models] [--epochs N] [--limit N] [--threads 1]

    parity     MNIST, even and odd
    cluttered  the same digits at random places of 40x40 pixels among fragments of others
    clothing   Fashion-MNIST in three groups: tops, shoes, others
    fashion    Fashion-MNIST with all ten labels: one task trained several times, for gates
    animals    CIFAR-10, animals and vehicles: data only, for what `merge_outputs.py` makes

A decision graph divides each class into clusters. With labels that merge finer ones there is
something to compare these with that the network was never told. For each name

    data/merged/NAME-train.npz, NAME-test.npz     x (bytes), y (merged), kind (finer label)
    models/NAME-SEED.onnx, NAME-SEED.json         a network of each seed, and how it was trained

What is already there is kept. Inputs are pixels from 0 to 1 (`--divide 255`), outputs are logits.
A network takes one to three minutes. Needs requirements.txt beside this file.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable

import numpy as np
import torch

import architectures
import images
import train

CANVAS = 40
FRAGMENTS = 8
FRAGMENT = 10


@dataclass
class Task:
    """Images whose kinds are merged into classes, and how a network learns them."""

    images: Callable
    # The class of every kind.
    classes: list
    # Without a network there is only data.
    network: Callable | None = None
    parameters: int = 0
    epochs: int = 0


def cluttered(folder, part):
    """MNIST's digits, each at a random place of a canvas, with fragments of other digits around."""
    digits, kinds = images.mnist(folder, part)
    random = np.random.default_rng({"train": 0, "test": 1}[part])
    size = digits.shape[-1]
    canvases = np.zeros((len(digits), 1, CANVAS, CANVAS), np.uint8)
    for canvas, digit in zip(canvases, digits):
        for _ in range(FRAGMENTS):
            top, left = random.integers(0, size - FRAGMENT + 1, 2)
            fragment = digits[random.integers(len(digits))]
            fragment = fragment[:, top : top + FRAGMENT, left : left + FRAGMENT]
            place(canvas, fragment, random)
        place(canvas, digit, random)
    return canvases, kinds


def place(canvas, patch, random):
    """Lays a patch somewhere on a canvas; the brighter pixel is seen."""
    size = patch.shape[-1]
    top, left = random.integers(0, CANVAS - size + 1, 2)
    part = canvas[:, top : top + size, left : left + size]
    np.maximum(part, patch, out=part)


EVEN_ODD = [0, 1] * 5
CLOTHING = [0, 2, 0, 0, 0, 1, 0, 1, 2, 1]
ANIMALS = [1, 1, 0, 0, 0, 0, 0, 0, 1, 1]

TASKS = {
    "parity": Task(images.mnist, EVEN_ODD, architectures.small, 60_354, epochs=2),
    "cluttered": Task(cluttered, EVEN_ODD, architectures.pooled, 50_674, epochs=6),
    "clothing": Task(images.fashion_mnist, CLOTHING, architectures.small, 60_419, epochs=2),
    "fashion": Task(images.fashion_mnist, list(range(10)), architectures.small, 60_874, epochs=1),
    "animals": Task(images.cifar10, ANIMALS),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--output", type=Path, default=Path("models"))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    options.full = False
    unknown = set(options.tasks) - set(TASKS)
    if unknown:
        parser.error(f"no such task: {', '.join(sorted(unknown))}")
    for folder in (options.output, options.data / "merged"):
        folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    for name in options.tasks or TASKS:
        try:
            make(name, options)
        except images.Missing as reason:
            sys.exit(f"{name}: {reason}")


def make(name, options):
    task = TASKS[name]
    for part in ("train", "test"):
        path = file_of(options.data, name, part)
        if not path.exists():
            x, kinds = task.images(options.data, part)
            y = np.array(task.classes)[kinds]
            np.savez(path, x=x, y=y, kind=kinds.astype(np.int64))
            train.say(f"{path}: {len(x)} images")
    for options.seed in options.seeds if task.network else []:
        path = options.output / f"{name}-{options.seed}.onnx"
        if path.exists():
            train.say(f"{path}: already there")
            continue
        recipe = train.Recipe(
            partial(task.network, max(task.classes) + 1), partial(read, name), path.name,
            task.parameters, task.epochs, task.epochs, rate=3e-3,
        )  # fmt: skip
        train.make(recipe, path, options)


def read(name, folder, part):
    with np.load(file_of(folder, name, part)) as arrays:
        return arrays["x"], arrays["y"]


def file_of(folder, name, part):
    return folder / "merged" / f"{name}-{part}.npz"


if __name__ == "__main__":
    main()
