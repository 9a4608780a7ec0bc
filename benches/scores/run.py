#!/usr/bin/env python3
"""What the two scores of an input are worth, what they cost, and what is thin in a whole test set.

    benches/scores/run.py --npcov target/release/npcov --model models/sadl2-cifar10.onnx \
        --train data/cifar-10:train --test data/cifar-10:test [--limit 20000] \
        [--novel data/fashion-mnist/t10k-images-idx3-ubyte.gz] [--calibration DATA] [--options "--divide 255"] \
        [--criteria snpc,deepgini,max-softmax,dsc] [--time EXAMPLE] [--own] [--keep FOLDER]
        [--before NPCOV]

A decision graph is built from the first `--limit` training inputs, and all test inputs are measured.
Printed are:

* the area under the ROC curve (AUROC) of each score for misclassified inputs: how often a
  misclassified input has a larger score than one that is not, .5 for chance. DeepGini, the largest
  softmax probability and DSA stand beside npcov's `unfamiliar` and `contested`;
* of the correctly classified test inputs, the share with p <= .05: 5 % if the calibration is right;
* with `--novel`, the AUROC for inputs of other data, shown to the model beside the test inputs;
* clusters that are thin in the whole test set; with `--own`, in the graph's own training data;
* what scores add to the graph's file: landmarks with their profiles, and calibration scores;
* with `--time target/release/examples/score_time`, the CPU time of clusters and scores beside that of
  measuring SNPC alone, for the first 1,024 test inputs.

`--before` names an npcov of commit 5cd3b27 or before, whose scores were `unknown` and `incorrect`: their AUROC,
of a graph that it builds, stands beside the others. `--calibration` is handed to `build`. What is in `--keep` is not computed again. Needs NumPy.
"""

import argparse
import json
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

OURS = ["unfamiliar", "contested"]
OTHERS = ["deepgini", "max-softmax", "dsa"]
BEFORE = ["unknown", "incorrect"]


def auroc(score, positive):
    """How often a positive has the larger score, ties counting half."""
    values, place = np.unique(score, return_inverse=True)
    positives = np.bincount(place, weights=positive, minlength=len(values))
    negatives = np.bincount(place, weights=~positive, minlength=len(values))
    below = np.cumsum(negatives) - negatives
    return np.sum(positives * (below + negatives / 2)) / positives.sum() / negatives.sum()


class Bench:
    """Runs npcov on a model and its data, in a folder."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.graph = folder / "graph.npcov"

    def npcov(self, *arguments):
        command = [self.options.npcov, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(command)} failed")
        return done.stdout

    def build(self):
        if self.graph.exists():
            return
        options = self.options
        model = Path(options.model).resolve()
        arguments = ["build", model, "--data", options.train, "-o", self.graph]
        arguments += ["--criteria", options.criteria, *shlex.split(options.options)]
        if options.limit:
            arguments += ["--limit", options.limit]
        if options.calibration:
            arguments += ["--calibration", options.calibration]
        self.npcov(*arguments)

    def cover(self, name, data, *arguments):
        """A report, and what was found for every input."""
        report, inputs = self.folder / f"{name}.json", self.folder / f"{name}.npz"
        if not report.exists():
            arguments = ["--name", name, "--inputs", inputs, "--format", "json", *arguments]
            text = self.npcov("cover", self.graph, "--data", data, *arguments)
            report.write_text(text)
        with np.load(inputs) as arrays:
            return json.loads(report.read_text()), dict(arrays)

    def scores_before(self):
        """The scores of an older npcov for every test input."""
        options, graph = self.options, self.folder / "before.npcov"
        run = lambda *arguments: subprocess.run(  # noqa: E731
            [options.before, *map(str, arguments)], stdout=subprocess.DEVNULL, check=True)
        limit = ["--limit", options.limit] if options.limit else []
        if not graph.exists():
            run("build", Path(options.model).resolve(), "--data", options.train, "--criteria", "snpc",
                *shlex.split(options.options), *limit, "-o", graph)
        scores = {}
        for name in BEFORE:
            order = self.folder / f"{name}.npz"
            if not order.exists():
                run("select", graph, "--data", options.test, "--by", f"score:{name}", "-o", order)
            with np.load(order) as arrays:
                scores[name] = np.empty(len(arrays["index"]))
                scores[name][arrays["index"]] = arrays["score"]
        return scores

    def sizes(self):
        """Bytes of the graph's file, and of what only scores need."""
        with open(self.graph, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        size = {
            name: entry["data_offsets"][1] - entry["data_offsets"][0]
            for name, entry in header.items()
            if name != "__metadata__"
        }
        scores = sum(n for name, n in size.items() if name.split(".")[0] in OWN_TENSORS)
        return self.graph.stat().st_size, scores


OWN_TENSORS = {"landmark", "profile", "calibration"}


def thin(report):
    clusters = report["suites"][0]["clusters"]
    return f"{sum(c['thin'] for c in clusters)} of {len(clusters)} clusters"


def row(title, numbers):
    print(f"{title:42}" + "".join(f"{number:>14}" for number in numbers), flush=True)


def measure(options, folder):
    bench = Bench(options, folder)
    bench.build()
    report, test = bench.cover("test", options.test)
    right = test["prediction"] == test["label"]
    if options.before:
        test |= bench.scores_before()
    names = [name for name in OURS + OTHERS + BEFORE if name in test]
    print(f"{options.model}: {options.limit or 'all'} training inputs, {len(right)} test inputs, "
          f"{right.mean():.2%} right")
    row("", names)
    row("AUROC, misclassified", [f"{auroc(test[name], ~right):.4f}" for name in names])
    if options.novel:
        _, novel = bench.cover("novel", options.novel)
        is_novel = np.repeat([False, True], [len(right), len(novel["prediction"])])
        both = [np.concatenate([test[name], novel[name]]) for name in names if name in novel]
        row("AUROC, novel", [f"{auroc(score, is_novel):.4f}" for score in both])
    shares = [np.mean(test[f"{name}.p"][right] <= 0.05) for name in OURS]
    row("right, with p <= .05", [f"{share:.2%}" for share in shares])
    print(f"thin in the test set: {thin(report)}")
    if options.own:
        limit = ["--limit", options.limit] if options.limit else []
        report, _ = bench.cover("training", options.train, "--criteria", "snpc", *limit)
        print(f"thin in the training data: {thin(report)}")
    whole, scores = bench.sizes()
    print(f"graph: {whole / 1e6:.1f} MB, of which scores need {scores / 1e6:.1f} MB "
          f"({scores / (whole - scores):.1%} more)")
    if options.time:
        command = [options.time, str(bench.graph), options.test, "1024"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        covering, scoring = map(float, output.split())
        print(f"CPU time: SNPC {1e3 * covering / 1024:.2f} ms an input, clusters and scores "
              f"{1e3 * scoring / 1024:.2f} ms: {scoring / covering:.2f} of it")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--novel")
    parser.add_argument("--calibration")
    parser.add_argument("--criteria", default="snpc,deepgini,max-softmax,dsc")
    parser.add_argument("--options", default="--divide 255")
    parser.add_argument("--time")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--before")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measure(options, folder)


if __name__ == "__main__":
    main()
