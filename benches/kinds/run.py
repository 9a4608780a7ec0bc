#!/usr/bin/env python3
"""Do clusters find kinds that nobody labelled, and is a missing kind named? `lab rq6` and `lab rq7` on several trainings.

    benches/kinds/run.py --npcov target/release/npcov [--tasks parity clothing animals cluttered] \
        [--models models] [--data data/merged] [--keep lab/kinds] [--criteria snpc]

`scripts/train/merged.py` trains the networks (`models/parity-0.onnx`, `-1`, `-2` ...) and writes the data;
`scripts/train/merge_outputs.py` makes `models/animals.onnx` of a network for CIFAR-10. For every model
that is there a decision graph is built from all training images, with default settings, and both
experiments are run with theirs. The tables are for `docs/results/kinds.md`. Below them stand the project's bars,
which were set after trials of the method on the same tasks, and whether they are met. What is in `--keep` is
not computed again.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

TITLES = {
    "parity": "MNIST, even and odd",
    "clothing": "Fashion-MNIST in three groups",
    "animals": "SADL-2, animals and vehicles",
    "cluttered": "cluttered MNIST, even and odd",
}

CLUSTERED = {
    "profiles": "relevance profiles",
    "paths-by-k-means": "paths, by k-means",
    "last-activations": "activations, last layer",
    "activations": "activations, all layers",
    "pixels": "pixels",
}

# By task: missing kinds that must be named at least, and the agreement (ARI) of each class.
NAMED = {"parity": 10, "clothing": 7, "animals": 10}
AGREEMENT = {"parity": 0.75, "animals": 0.65}
# What profiles must agree better than.
CONTROLS = {
    "parity": ["last-activations", "activations"],
    "animals": ["last-activations", "activations", "pixels"],
}
# Thin clusters in 40 complete suites.
FALSE_ALARMS = 2


class Runner:
    """Runs npcov on the models of the tasks."""

    def __init__(self, options):
        self.options = options
        options.keep.mkdir(parents=True, exist_ok=True)

    def npcov(self, *arguments):
        command = [self.options.npcov, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{shlex.join(command)} failed")

    def run(self, task, model):
        """What RQ6 and RQ7 gave for a model."""
        options, name = self.options, model.stem
        train, test = (options.data / f"{task}-{part}.npz" for part in ("train", "test"))
        graph, folder = options.keep / f"{name}.npcov", options.keep / name
        if not graph.exists():
            arguments = ["--divide", 255, "--criteria", options.criteria, "-o", graph]
            self.npcov("build", model.resolve(), "--data", train, *arguments)
        lab = ["--data", train, "-o", folder]
        if not (folder / "rq7.json").exists():
            self.npcov("lab", "rq7", graph, "--test", test, *lab)
        if not (folder / "rq6.json").exists():
            self.npcov("lab", "rq6", graph, *lab)
        return [json.loads((folder / f"{rq}.json").read_text()) for rq in ("rq6", "rq7")]


def models_of(options, task):
    merged = options.models / f"{task}.onnx"
    trained = options.models.glob(f"{task}-*.onnx")
    return [merged] if merged.exists() else sorted(trained)


def named(rq7):
    return sum(missing["named"] for missing in rq7["missing"])


def wrongly(rq7):
    return sum(len(missing["wrongly"]) for missing in rq7["missing"])


def print_missing(results):
    print("\n| task | network | clusters | named | wrongly | of no kind | false in complete suites "
          "| thin in all test data | in training data |")
    print("|---|---|---|---|---|---|---|---|---|")
    for task, model, _, rq7 in results:
        unclear = sum(len(missing["unclear"]) for missing in rq7["missing"])
        print(f"| {TITLES[task]} | {model.stem} | {len(rq7['clusters'])} "
              f"| {named(rq7)} of {len(rq7['missing'])} | {wrongly(rq7)} | {unclear} "
              f"| {rq7['false_alarms']} in {rq7['complete']} | {len(rq7['thin_in_test'])} "
              f"| {len(rq7['thin_in_training'])} |")


def agreement(row):
    return [entry["ari"] for entry in row["classes"]]


def print_agreement(results):
    print("\n| task | network | clustered | ARI of each class (clusters; kinds) | purity |")
    print("|---|---|---|---|---|")
    for task, model, rq6, _ in results:
        for row in rq6["rows"]:
            classes = row["classes"]
            cells = [f"{c['ari']:.3f} ({c['clusters']}; {c['kinds']})" for c in classes]
            inputs = sum(c["inputs"] for c in classes)
            purity = sum(c["purity"] * c["inputs"] for c in classes) / inputs
            clustered = CLUSTERED[row["clustered"]]
            print(f"| {TITLES[task]} | {model.stem} | {clustered} | {', '.join(cells)} "
                  f"| {purity:.1%} |")


def print_bars(results):
    print()
    for task, model, rq6, rq7 in results:
        rows = {row["clustered"]: agreement(row) for row in rq6["rows"]}
        ours = rows["profiles"]
        found = []
        if task in NAMED:
            found.append((f"{named(rq7)} named, {NAMED[task]} wanted", named(rq7) >= NAMED[task]))
            found.append((f"{wrongly(rq7)} named wrongly, 0 wanted", wrongly(rq7) == 0))
            alarms = rq7["false_alarms"]
            found.append((f"{alarms} false, {FALSE_ALARMS} allowed", alarms <= FALSE_ALARMS))
        found.append(("nothing thin in training data", not rq7["thin_in_training"]))
        if task in AGREEMENT:
            least = AGREEMENT[task]
            found.append((f"ARI {min(ours):.3f}, {least} wanted", min(ours) >= least))
        for control in CONTROLS.get(task, []):
            above = all(a > b for a, b in zip(ours, rows[control]))
            found.append((f"ARI above that of {CLUSTERED[control]}", above))
        for text, met in found:
            print(f"{'met' if met else 'NOT MET':8} {model.stem}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--tasks", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data/merged"))
    parser.add_argument("--keep", type=Path, default=Path("lab/kinds"))
    parser.add_argument("--criteria", default="snpc")
    options = parser.parse_args()
    runner, results = Runner(options), []
    for task in options.tasks:
        models = models_of(options, task)
        if not models:
            print(f"{task}: no model in {options.models}", file=sys.stderr)
        for model in models:
            results.append((task, model, *runner.run(task, model)))
    print_missing(results)
    print_agreement(results)
    print_bars(results)


if __name__ == "__main__":
    main()
