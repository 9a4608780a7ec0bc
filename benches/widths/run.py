#!/usr/bin/env python3
"""Why are paths as wide as they are? SADL-1 trained in several ways, and what `lab rq1` says of its paths.

    benches/widths/run.py --npcov target/release/npcov [--data data] [--limit 2000] [--inputs 300] \
        [--keep lab/widths] [--only plain mixup]

Each way differs from the first in one thing: mixup, initial weights, batch norm, dropout, decay of weights, epochs.
All networks learn the first `--limit` images of MNIST with seed 0, so that the first, not the network of
docs/results/sadl1.md, is what the others are held against. Below them stands the first again with other path layers and
other neurons. What is in `--keep` is not computed again. Needs scripts/train/requirements.txt.
"""

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "train"))

import architectures  # noqa: E402
import images  # noqa: E402
import torch  # noqa: E402
import train  # noqa: E402
from torch import nn  # noqa: E402


@dataclass
class Way:
    """How a network is trained, and how its paths are looked at."""

    title: str
    epochs: int = 8
    mixup: bool = False
    glorot: bool = False
    norm: bool = False
    dropout: bool = True
    decay: float = 0.0
    # The network of another way, and what `lab rq1` is told.
    of: str | None = None
    flags: str = ""


PLAIN = Way("as for the other results, in miniature")
WAYS = {
    "plain": PLAIN,
    "short": replace(PLAIN, title="2 epochs instead of 8", epochs=2),
    "long": replace(PLAIN, title="16 epochs", epochs=16),
    "mixup": replace(PLAIN, title="mixup, 16 epochs", mixup=True, epochs=16),
    "glorot": replace(PLAIN, title="Glorot's initial weights, biases 0 (Keras)", glorot=True),
    "norm": replace(PLAIN, title="batch norm after convolutions, relevance passes it unchanged", norm=True),
    "fold": Way("the same network, batch norm folded", of="norm", flags="--batch-norm fold"),
    "no-dropout": replace(PLAIN, title="no dropout", dropout=False),
    "decay": replace(PLAIN, title="decay of weights, 0.001, 16 epochs", decay=1e-3, epochs=16),
    "convolutions": Way("`plain`, path layers: convolutions only", of="plain", flags="--layers 0,1"),
    "dense": Way("`plain`, path layers: the dense one only", of="plain", flags="--layers 2"),
    "units": Way("`plain`, every unit of a map a neuron", of="plain", flags="--units"),
}


def network(way):
    """SADL-1, changed as the way says."""
    layers = []
    for layer in architectures.sadl1():
        if isinstance(layer, nn.Dropout) and not way.dropout:
            continue
        layers.append(layer)
        if isinstance(layer, nn.Conv2d) and way.norm:
            layers.append(nn.BatchNorm2d(layer.out_channels))
    for layer in layers:
        if way.glorot and isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def make(way, path, options):
    pixels, labels = (array[: options.limit] for array in images.mnist(options.data, "train"))
    torch.manual_seed(0)
    recipe = replace(train.RECIPES["sadl1"], decay=way.decay)
    model = network(way)
    for loss in train.train(model, recipe, pixels, labels, way.epochs, way.mixup):
        print(f"{path.stem}: loss {loss:.4f}", file=sys.stderr)
    right = train.count_correct(model, *images.mnist(options.data, "test"))
    train.export(model, pixels.shape[1:], path)
    path.with_suffix(".json").write_text(json.dumps({"accuracy": right / 10_000}))


def paths(name, way, model, options):
    """What `lab rq1` gives."""
    found = options.keep / f"rq1-{name}" / "rq1.json"
    if not found.exists():
        command = [options.npcov, "lab", "rq1", model, "--data", options.data / "mnist/train-images-idx3-ubyte.gz",
                   "--divide", 255, "--choices", "tables", "--sample", options.inputs, "--controls", 100,
                   "--per-class", 20, "--quiet", *shlex.split(way.flags), "-o", found.parent]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return json.loads(found.read_text())["points"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default=str(ROOT / "target/release/npcov"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--keep", type=Path, default=Path("lab/widths"))
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    print("| | test accuracy | width at alpha 0.7 | 0.8 | 0.9 | 1 | at 0.8: Inc.C | Inc.NC |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.only:
        way = WAYS[name]
        model = options.keep / f"{way.of or name}.onnx"
        if not model.exists():
            make(WAYS[way.of or name], model, options)
        accuracy = json.loads(model.with_suffix(".json").read_text())["accuracy"]
        points = paths(name, way, model, options)
        widths = " | ".join(f"{point['width']:.1%}" for point in points)
        masked = points[1]["path"]
        print(f"| {way.title} | {accuracy:.1%} | {widths} | {masked['inc_c']:.1%} | {masked['inc_nc']:.1%} |", flush=True)


if __name__ == "__main__":
    main()
