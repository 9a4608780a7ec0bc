#!/usr/bin/env python3
"""Trains the networks of the paper on neuron path coverage and writes them as ONNX.

    scripts/train/train.py [sadl1 sadl2 vgg16 alexnet] [--data data] [--output models] [--full]
                           [--epochs N] [--limit N] [--seed 0] [--threads 2]

    sadl1    MNIST      models/sadl1-mnist.onnx
    sadl2    CIFAR-10   models/sadl2-cifar10.onnx
    vgg16    CIFAR-10   models/vgg16-cifar10.onnx
    alexnet  SVHN       models/alexnet-svhn.onnx, from data/svhn/{train,test}_32x32.mat

Without names, all whose data is there. A model that is already there is kept. Beside each model a
JSON file says how it was trained and how accurate it is on the test images.

The default number of epochs is for a machine with two cores; `--full` is ten times as many or
more, with mixup for the networks that were published with it. The seed decides about weights,
order and augmentation; the same seed, number of threads, PyTorch and processor give the same
model. `--limit` takes only the first images, to try things out.

Batch normalisation stays in the file: relevance rules and decision graphs are about the network
as it was trained. Inputs are pixels from 0 to 1 (`--divide 255`), outputs are logits. Needs
requirements.txt beside this file.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

import architectures
import images

BATCH = 128


@dataclass
class Recipe:
    """How a network is trained."""

    network: Callable
    data: Callable
    file: str
    # Trainable numbers, to notice a network that is another one.
    parameters: int
    epochs: int
    full_epochs: int
    # The highest rate of Adam's one-cycle schedule.
    rate: float
    # Pixels by which images are shifted, and whether they are mirrored: digits are not.
    shift: int = 0
    mirror: bool = False
    # Whether `--full` mixes pairs of images: the names of the published checkpoints say so.
    mixup: bool = False
    # How much of the square of weights is added to the loss.
    decay: float = 0.0


RECIPES = {
    "sadl1": Recipe(
        architectures.sadl1, images.mnist, "sadl1-mnist.onnx", 1_218_634,
        epochs=4, full_epochs=50, rate=1e-3, mixup=True,
    ),
    "sadl2": Recipe(
        architectures.sadl2, images.cifar10, "sadl2-cifar10.onnx", 2_915_114,
        epochs=24, full_epochs=240, rate=1e-3, shift=4, mirror=True, mixup=True,
    ),
    "vgg16": Recipe(
        architectures.vgg16, images.cifar10, "vgg16-cifar10.onnx", 14_728_266,
        epochs=5, full_epochs=60, rate=1e-3, shift=4, mirror=True,
    ),
    "alexnet": Recipe(
        architectures.alexnet, images.svhn, "alexnet-svhn.onnx", 19_076_938,
        epochs=4, full_epochs=40, rate=3e-4, shift=2,
    ),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(RECIPES))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--output", type=Path, default=Path("models"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    unknown = set(options.networks) - set(RECIPES)
    if unknown:
        parser.error(f"no such network: {', '.join(sorted(unknown))}")
    options.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    for name in options.networks or RECIPES:
        path = options.output / RECIPES[name].file
        if path.exists():
            say(f"{path}: already there")
            continue
        try:
            make(RECIPES[name], path, options)
        except images.Missing as reason:
            # Asked for by name, it has to be there.
            if options.networks:
                sys.exit(f"{name}: {reason}")
            say(f"{name}: skipped: {reason}")


def make(recipe, path, options):
    """Trains a network and writes it, with a record of how that went."""
    training = [array[: options.limit] for array in recipe.data(options.data, "train")]
    test = [array[: options.limit] for array in recipe.data(options.data, "test")]
    epochs = options.epochs or (recipe.full_epochs if options.full else recipe.epochs)
    torch.manual_seed(options.seed)
    network = recipe.network()
    parameters = sum(p.numel() for p in network.parameters())
    if parameters != recipe.parameters:
        sys.exit(f"{path}: {parameters} parameters, not {recipe.parameters}")
    start = time.perf_counter()
    mixup = options.full and recipe.mixup
    for epoch, loss in enumerate(train(network, recipe, *training, epochs, mixup)):
        seconds = time.perf_counter() - start
        say(f"{path}: epoch {epoch + 1} of {epochs}, loss {loss:.4f}, {seconds:.0f} s")
    seconds = time.perf_counter() - start
    correct = count_correct(network, *test)
    export(network, training[0].shape[1:], path)
    record = {
        "accuracy": correct / len(test[0]),
        "correct": correct,
        "test_images": len(test[0]),
        "training_images": len(training[0]),
        "parameters": parameters,
        "epochs": epochs,
        "batch": BATCH,
        "rate": recipe.rate,
        "shift": recipe.shift,
        "mirror": recipe.mirror,
        "mixup": mixup,
        "seed": options.seed,
        "threads": options.threads,
        "torch": torch.__version__,
        "seconds": round(seconds),
    }
    path.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")
    say(f"{path}: {100 * record['accuracy']:.2f} % of {len(test[0])} test images, {seconds:.0f} s")


def train(network, recipe, pixels, labels, epochs, mixup):
    """Adam with a one-cycle schedule; yields the mean loss of every epoch."""
    pixels, labels = torch.tensor(pixels), torch.tensor(labels.astype(np.int64))
    # A last batch of one image would have no variance for batch norm.
    steps = max(len(pixels) // BATCH, 1)
    optimiser = torch.optim.Adam(network.parameters(), recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, epochs * steps)
    for _ in range(epochs):
        network.train()
        order = torch.randperm(len(pixels))
        total = 0.0
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            x = augment(pixels[chosen].float() / 255, recipe)
            loss = loss_of(network, x, labels[chosen], mixup)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        yield total / steps
    network.eval()


def augment(x, recipe):
    """Images shifted and mirrored at random, each on its own."""
    if recipe.mirror:
        mirrored = torch.rand(len(x)) < 0.5
        x = torch.where(mirrored[:, None, None, None], x.flip(3), x)
    if recipe.shift:
        size, shift = x.shape[-1], recipe.shift
        padded = functional.pad(x, [shift] * 4)
        places = torch.randint(0, 2 * shift + 1, (len(x), 2)).tolist()
        crops = zip(padded, places)
        x = torch.stack([image[:, t : t + size, l : l + size] for image, (t, l) in crops])
    return x


def loss_of(network, x, labels, mixup):
    if not mixup:
        return functional.cross_entropy(network(x), labels)
    # Zhang et al. 2018: weighted means of pairs, with the weighted mean of their losses.
    share = np.float32(torch.distributions.Beta(1.0, 1.0).sample().item())
    other = torch.randperm(len(x))
    logits = network(share * x + (1 - share) * x[other])
    own = functional.cross_entropy(logits, labels)
    return share * own + (1 - share) * functional.cross_entropy(logits, labels[other])


def count_correct(network, pixels, labels):
    correct = 0
    with torch.no_grad():
        for start in range(0, len(pixels), 500):
            x = torch.tensor(pixels[start : start + 500]).float() / 255
            found = network(x).argmax(1).numpy()
            correct += int((found == labels[start : start + 500]).sum())
    return correct


def export(network, shape, path):
    """Writes a network as ONNX with its batch norm, checked to be there."""
    # Under another name until it is complete: a file that is there is kept by the next run.
    partial = path.with_suffix(".partial")
    torch.onnx.export(
        network,
        (torch.zeros(1, *shape),),
        partial,
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        # The exporter folds batch norm into convolutions unless it believes that training goes on.
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )
    operators = [node.op_type for node in onnx.load(partial).graph.node]
    wanted = sum(isinstance(layer, nn.BatchNorm2d) for layer in network.modules())
    found = operators.count("BatchNormalization")
    if found != wanted or "Dropout" in operators:
        sys.exit(f"{path}: {found} batch norms of {wanted} in the file: {operators}")
    partial.rename(path)


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    main()
