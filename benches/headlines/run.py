#!/usr/bin/env python3
"""Does a random sample of the training data reach what the random yardstick says, whatever its size?

    benches/headlines/run.py --npcov target/release/npcov --graph lab/kinds/parity-0.npcov \
        --train data/merged/parity-train.npz [--sizes 100 300 1000 3000 10000] [--samples 20] [--seed 0] \
        [--criteria snpc] [--keep FOLDER]

The npz file is what the graph was learnt from, all of it. From its inputs samples are drawn, without putting
any back, and measured as suites. A row says, for one size: the headline (what a sample covers as a part of
what the yardstick expects of so many) on average over the samples, with the interval that holds the true
average in 95 of 100 cases; how far single samples stray from each other, and what the report says they do
(its spread); and how many samples are within one spread of 100 %, and within two. The exit code is 1 if a
size's average is farther from 100 % than the spread that reports show. Needs NumPy.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--graph", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000, 10000])
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--criteria", default="snpc")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(measure(options, folder))


def measure(options, folder):
    with np.load(options.train) as arrays:
        x, y = arrays["x"], arrays["y"]
    random = np.random.default_rng(options.seed)
    print("criterion   size  samples  of random, mean (95 % interval)  they stray  reports say  within one  two")
    failed = False
    for size in options.sizes:
        names = []
        for sample in range(options.samples):
            rows = random.choice(len(x), size, replace=False)
            names.append(folder / f"{size}-{sample}.npz")
            np.savez(names[-1], x=x[rows], y=y[rows])
        found = cover(options, names)
        for criterion in options.criteria.split(","):
            numbers = [suite["yardsticks"][criterion] for suite in found["suites"]]
            reached = np.array([number["of_random"] for number in numbers])
            spread = np.array([number["spread"] for number in numbers])
            mean, stray = reached.mean(), reached.std(ddof=1)
            interval = student(len(reached)) * stray / len(reached) ** 0.5
            away = abs(reached - 1)
            print(f"{criterion:9} {size:6,} {len(reached):8}      {mean:.2%} ({mean - interval:.2%} to "
                  f"{mean + interval:.2%})      {stray:6.2%}       {spread.mean():6.2%}  {(away <= spread).sum():10} "
                  f"{(away <= 2 * spread).sum():4}", flush=True)
            failed |= abs(mean - 1) > spread.mean()
        for name in names if not options.keep else []:
            name.unlink()
    return int(failed)


def cover(options, names):
    command = [options.npcov, "cover", options.graph, "--criteria", options.criteria, "--format", "json"]
    for name in names:
        command += ["--data", name]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def student(samples):
    """The 97.5 % quantile of Student's distribution (Cornish-Fisher, good to 1 % from 5 samples on)."""
    z, degrees = 1.959964, samples - 1
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


if __name__ == "__main__":
    main()
