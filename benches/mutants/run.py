#!/usr/bin/env python3
"""Do suites that cover more kill more mutants?

    benches/mutants/run.py --model models/sadl1-mnist.onnx --graph sadl1.npcov \
        --pool data/mnist/t10k-images-idx3-ubyte.gz [--suites 40] [--size 100] [--ratio 0.01,0.05] [--mutants 10] \
        [--seed 0] [--options "--divide 255"] [--keep FOLDER] [--json OUT.json]

From a pool of labelled inputs, suites are drawn in three ways:

* *alike*: `--suites` random suites of `--size` inputs. Nothing but chance tells them apart.
* *classes*: suites of `--size` inputs of 1 to all classes, as many of each class.
* *sizes*: random suites of 1/8 to 8 times `--size` inputs.

Each is measured by `npcov cover` with all criteria of the graph. `npcov mutate` runs the pool once on all mutants;
those that count do so on the whole pool, so that all suites are held against the same ones. The mutation score of a suite follows
from what mutants make of its inputs. Printed is the correlation of ranks (Spearman) of each criterion with the score, over
the suites of one way, with a 95 % interval of 1,000 bootstrap samples; beside the criteria stand the number of inputs, the number of
classes, and the share that is misclassified, which need no coverage. Values that are the same for all suites have no
correlation. Needs NumPy.
"""

import argparse
import gzip
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WAYS = ["alike", "classes", "sizes"]


def read_idx(path):
    with gzip.open(path, "rb") as file:
        data = file.read()
    axes = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_pool(path):
    """Inputs and labels of an npz file, or of a pair of IDX files."""
    if path.endswith(".npz"):
        with np.load(path) as arrays:
            return arrays["x"], arrays["y"]
    return read_idx(path), read_idx(path.replace("images-idx3", "labels-idx1")).astype(np.int64)


def ranks(values):
    """Ranks, the mean one for equal values."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def interval(a, b, rng, samples=1000):
    found = []
    for _ in range(samples):
        chosen = rng.integers(0, len(a), len(a))
        found.append(spearman(a[chosen], b[chosen]))
    found = [x for x in found if x is not None]
    return np.percentile(found, [2.5, 97.5]) if found else (np.nan, np.nan)


def draw(way, labels, options, rng):
    """The rows of each suite."""
    size, suites = options.size, []
    classes = np.unique(labels)
    for i in range(options.suites):
        if way == "alike":
            suites.append(rng.choice(len(labels), size, replace=False))
        elif way == "sizes":
            count = int(round(size * 2 ** rng.uniform(-3, 3)))
            suites.append(rng.choice(len(labels), min(max(count, 1), len(labels)), replace=False))
        else:
            some = rng.permutation(classes)[: 1 + i % len(classes)]
            each = -(-size // len(some))
            rows = [rng.permutation(np.flatnonzero(labels == c))[:each] for c in some]
            suites.append(rng.permutation(np.concatenate(rows))[:size])
    return suites


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def npcov(self, *arguments):
        command = [self.options.npcov, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(command)} failed\n{done.stderr}")
        return done.stdout

    def mutants(self):
        """What is right, what the model says and what mutants that count say, of each input of the pool."""
        options = self.options
        file, report = self.folder / "mutants.npz", self.folder / "mutants.json"
        if not report.exists():
            text = self.npcov("mutate", options.model, "--data", options.pool, "--ratio", options.ratio, "--mutants",
                              options.mutants, "--seed", options.seed, "--predictions", file, "--format", "json",
                              *shlex.split(options.options))
            report.write_text(text)
        with np.load(file) as arrays:
            truth, prediction, mutants = arrays["truth"], arrays["prediction"], arrays["mutants"]
        right = (truth == prediction).sum()
        counted = (mutants == truth).sum(axis=1) >= 0.9 * right
        told = json.loads(report.read_text())
        if counted.sum() != told["counted"]:
            sys.exit(f"{counted.sum()} mutants count, npcov says {told['counted']}")
        return truth, prediction, mutants[counted], len(mutants)

    def cover(self, name, x, y):
        """The values of all criteria."""
        report = self.folder / f"{name}.json"
        if not report.exists():
            data = self.folder / "suite.npz"
            np.savez(data, x=x, y=y)
            report.write_text(self.npcov("cover", self.options.graph, "--data", data, "--name", name, "--format", "json"))
        return json.loads(report.read_text())["suites"][0]["criteria"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--model", required=True)
    parser.add_argument("--graph", required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--suites", type=int, default=40)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--ratio", default="0.01,0.05")
    parser.add_argument("--mutants", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", default="--divide 255")
    parser.add_argument("--skip", type=int, default=0, help="leave the first inputs of the pool out of suites")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        measure(options, Bench(options, options.keep or Path(folder)))


def measure(options, bench):
    x, y = read_pool(options.pool)
    truth, prediction, mutants, made = bench.mutants()
    classes = int(y.max()) + 1
    wrong = mutants != truth
    rng = np.random.default_rng(options.seed)
    table, facts = {}, {}
    for way in WAYS:
        rows = []
        for number, suite in enumerate(draw(way, y[options.skip :], options, rng)):
            suite = np.sort(suite + options.skip)
            found = bench.cover(f"{way}-{number}", x[suite], y[suite])
            right = suite[prediction[suite] == truth[suite]]
            killed = [len(np.unique(truth[right[w[right]]])) for w in wrong]
            found["inputs"] = len(suite)
            found["classes"] = len(np.unique(prediction[suite]))
            found["misclassified"] = 1 - len(right) / len(suite)
            rows.append((found, np.sum(killed) / len(wrong) / classes))
        score = np.array([row[1] for row in rows])
        facts[way] = (score.min(), score.max())
        for name in rows[0][0]:
            value = np.array([row[0][name] for row in rows])
            rank = spearman(value, score)
            low, high = interval(value, score, rng) if rank is not None else (np.nan, np.nan)
            table.setdefault(name, {})[way] = (rank, low, high)
    print(f"{options.model}: {len(y)} inputs, {made} mutants of which {len(mutants)} count")
    for way in WAYS:
        low, high = facts[way]
        print(f"  {way:8} {options.suites} suites, mutation score {low:.3f} to {high:.3f}")
    print("\nranks of coverage and of the mutation score: correlation (95 % interval)")
    print(f"  {'':14}" + "".join(f"{way:>24}" for way in WAYS))
    for name, row in table.items():
        cells = []
        for way in WAYS:
            rank, low, high = row[way]
            cells.append("-" if rank is None else f"{rank:.2f} ({low:.2f} to {high:.2f})")
        print(f"  {name:14}" + "".join(f"{cell:>24}" for cell in cells))
    if options.json:
        clean = {n: {w: None if r[0] is None else [float(v) for v in r] for w, r in row.items()} for n, row in table.items()}
        options.json.write_text(json.dumps({"scores": {w: list(map(float, f)) for w, f in facts.items()}, "ranks": clean}, indent=1))


if __name__ == "__main__":
    main()
