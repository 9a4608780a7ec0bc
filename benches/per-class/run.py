#!/usr/bin/env python3
"""Do parameters of its own for every class make better abstract paths? RQ2 for each class by itself.

    benches/per-class/run.py --npcov target/release/npcov --model models/alexnet-svhn.onnx --train data/svhn/train.npz \
        [--layers 0,1,2,3,4] [--inputs 200] [--keep lab/per-class/alexnet]

The paper has one alpha, one number of clusters and one beta for all classes. Here `lab rq2` looks at the first inputs of one
class at a time, twice as many as `--inputs` in two halves. Parameters are chosen on one half and judged on the other, whose
paths are clustered anew: the narrowest abstract paths whose Inc.C - Inc.NC reaches `--least`, or else those with the largest
difference. `one for all` chooses by the means of all classes, `k of each class` takes its alpha and beta and lets classes
have their own number of clusters, `all of each class` lets them have all three. Halves are exchanged and averaged.
What is in `--keep` is not computed again. `--train` is an npz file with `x` and `y`, or a folder of MNIST's files.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "train"))

import images  # noqa: E402

ALPHAS = [0.7, 0.8, 0.9]
CLUSTERS = [1, 4, 7]
BETAS = [0.6, 0.7, 0.8, 0.9]


def grid(options, label, half, file):
    """What masking does to one half of a class: (width, Inc.C, Inc.NC) by (alpha, clusters, beta)."""
    found = {}
    for alpha in ALPHAS:
        folder = options.keep / f"{label}-{half}-{alpha}"
        if not (folder / "rq2.json").exists():
            command = [options.npcov, "lab", "rq2", options.model, "--data", file, "--divide", 255, "--choices", "tables",
                       "--alpha", alpha, "--clusters", ",".join(map(str, CLUSTERS)), "--betas", ",".join(map(str, BETAS)),
                       "--sheet-classes", label, "--quiet", "-o", folder]
            command += ["--layers", options.layers] if options.layers else []
            subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        for point in json.loads((folder / "rq2.json").read_text())["points"]:
            key = (alpha, point["clusters"], point["beta"])
            found[key] = (point["width"], point["path"]["inc_c"], point["path"]["inc_nc"])
    return found


def best(points, least):
    """The parameters of the narrowest paths that decide.

    >>> best({"a": (0.3, 1.0, 0.0), "b": (0.2, 0.97, 0.01), "c": (0.1, 0.8, 0.2)}, 0.95)
    'b'
    >>> best({"a": (0.3, 0.8, 0.0), "c": (0.1, 0.8, 0.2)}, 0.95)
    'a'
    """
    deciding = {key: point for key, point in points.items() if point[1] - point[2] >= least}
    if deciding:
        return min(deciding, key=lambda key: deciding[key][0])
    return max(points, key=lambda key: points[key][1] - points[key][2])


def averages(points):
    return tuple(mean(values) for values in zip(*points))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default=str(ROOT / "target/release/npcov"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--layers")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--keep", type=Path, required=True)
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    if options.train.is_dir():
        x, y = images.mnist(options.train.parent, "train", options.train.name)
    else:
        with np.load(options.train) as arrays:
            x, y = arrays["x"], arrays["y"]
    halves = ({}, {})
    for label in sorted(set(y.tolist())):
        rows = np.flatnonzero(y == label)[: 2 * options.inputs]
        for half, found in enumerate(halves):
            file = options.keep / f"{label}-{half}.npz"
            np.savez(file, x=x[rows[half::2]], y=y[rows[half::2]].astype(np.int64))
            found[label] = grid(options, label, half, file)
    rows = {"one for all": [], "k of each class": [], "all of each class": []}
    for chosen, judged in (halves, halves[::-1]):
        every = {key: averages(found[key] for found in chosen.values()) for key in next(iter(chosen.values()))}
        one = best(every, options.least)
        own_k = {label: best({key: point for key, point in found.items() if (key[0], key[2]) == (one[0], one[2])},
                             options.least) for label, found in chosen.items()}
        own = {label: best(found, options.least) for label, found in chosen.items()}
        rows["one for all"].append((judged, dict.fromkeys(chosen, one)))
        rows["k of each class"].append((judged, own_k))
        rows["all of each class"].append((judged, own))
    print("| parameters | width | Inc.C | Inc.NC | least Inc.C - Inc.NC of a class | chosen (alpha, k, beta), one half |")
    print("|---|---:|---:|---:|---:|---|")
    for name, trials in rows.items():
        points = [[judged[label][key] for label, key in keys.items()] for judged, keys in trials]
        width, inc_c, inc_nc = averages(averages(half) for half in points)
        least = min(inc_c - inc_nc for half in points for _, inc_c, inc_nc in half)
        keys = list(trials[0][1].values())
        chosen = ", ".join(f"{a} {k} {b}" for a, k, b in (keys[:1] if len(set(keys)) == 1 else keys))
        print(f"| {name} | {width:.1%} | {inc_c:.1%} | {inc_nc:.1%} | {least:.1%} | {chosen} |")


if __name__ == "__main__":
    main()
