#!/usr/bin/env python3
"""Runs npcov on every export of a folder and writes the table of docs/models.md.

    scripts/models_table.py FOLDER --npcov target/release/npcov [--only PART]
    scripts/models_table.py FOLDER --npcov target/release/npcov [--only PART] --exact

FOLDER is what scripts/exports.py wrote. For each export, without any option but the data:

* `inspect` ends well;
* `predict` agrees with ONNX Runtime on all inputs: |a - b| at most 1e-4 of the largest |b| of
  the input, or of all inputs where the model gives a single number (2e-3 for half precision). Where the model ends in probabilities, so do both sides.
  For 8-bit integers, the class is the same for 99 % of the inputs and the logits lie within two
  quanta of the output: its scale, or a 255th of its range where it is not quantised;
* `explain`, `build` and `cover` end well.

Trees are to be refused, and the reason is to name them. Linear models have no neurons: `explain` and
`build` are to say so. What was found stays in FOLDER/results.json,
so that `--only` runs some exports again; the table between the two markers of docs/models.md has
all that were ever run. Exit 1 when anything of it failed.

`--exact` writes no table. It prints how far npcov and ONNX Runtime are from each other and from the same network in
float64 (exact.py), over the inputs: the largest distance as a part of the largest logit. Needs requirements-test.txt.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from exact import Exact, Unsupported
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/models.md"
BEGIN, END = "<!-- table: make models-table -->", "<!-- end of table -->"
COMMANDS = ("inspect", "predict", "explain", "build", "cover")
BOUND = {"exact": 1e-4, "half": 2e-3}
SECONDS = 1800


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--only", default="", help="only exports whose name contains this")
    parser.add_argument("--exact", action="store_true", help="distances from float64 instead of the table")
    options = parser.parse_args()
    # Commands run inside it.
    options.folder = options.folder.resolve()
    exports = json.loads((options.folder / "exports.json").read_text())
    if options.exact:
        chosen = [e for e in exports if options.only in e["name"] and e["tolerance"] == "exact" and not e["failed"]]
        print(f"{'export':28} {'apart':>8} {'npcov':>8} {'ONNX Runtime':>12}")
        for export in chosen:
            print(Row(export, options).exact_line(), flush=True)
        return 0
    memory = options.folder / "results.json"
    known = json.loads(memory.read_text()) if memory.exists() else {}
    for export in exports:
        if options.only in export["name"]:
            row = Row(export, options)
            row.run()
            known[export["name"]] = {"results": row.results, "reasons": row.reasons}
            memory.write_text(json.dumps(known, indent=1) + "\n")
            print(row.line(), flush=True)
            for command, reason in row.reasons.items():
                print(f"    {command}: {reason}", flush=True)
    rows = [Row(export, options, known[export["name"]]) for export in exports if export["name"] in known]
    good = sum(row.good() for row in rows)
    print(f"{good} of {len(rows)} pass")
    write(rows, good)
    return 0 if good == len(rows) else 1


class Row:
    """An export and what npcov made of it."""

    def __init__(self, export, options, known=None):
        self.export = export
        self.npcov = options.npcov.resolve()
        self.model = options.folder / f"{export['name']}.onnx"
        self.folder = options.folder
        self.results = known["results"] if known else {}
        self.reasons = known["reasons"] if known else {}

    def run(self):
        if self.export["failed"]:
            self.reasons["export"] = self.export["failed"]
            return
        if self.export["output"] == "trees":
            self.refusal()
            return
        with tempfile.TemporaryDirectory() as scratch:
            scratch = Path(scratch)
            data = ["--data", self.data()]
            graph = scratch / "graph.npcov"
            self.command("inspect", [self.model])
            output = scratch / "out.npz"
            if self.command("predict", [self.model, *data, "--output", output]):
                self.compare(output)
            if self.export.get("linear"):
                self.command("explain", [self.model, *data])
                self.refused("build", [self.model, *data, "-o", graph], "no hidden activation function")
                self.results["cover"] = "-"
                return
            self.command("explain", [self.model, *data])
            if self.command("build", [self.model, *data, "-o", graph]):
                self.command("cover", [graph, *data])
            else:
                self.results["cover"] = "-"

    def data(self):
        """The inputs by their names, with labels."""
        path = self.folder / f"{self.export['name']}.npz"
        with np.load(path) as arrays:
            names = [name for name in arrays.files if name != "y"]
        return f"{path}:{names[0]},y" if len(names) == 1 else str(path)

    def command(self, name, arguments):
        ended = self.call(name, arguments)
        self.results[name] = "yes" if ended.returncode == 0 else "no"
        if ended.returncode != 0:
            self.reasons[name] = reason(ended)
        return ended.returncode == 0

    def call(self, name, arguments):
        command = [self.npcov, name, *arguments, "--quiet"]
        try:
            return subprocess.run(
                [str(a) for a in command], capture_output=True, text=True, timeout=SECONDS, cwd=self.folder
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 2, "", f"no end after {SECONDS} s")

    def refusal(self):
        """Trees: every command says no, and why."""
        for name in COMMANDS:
            arguments = [self.model] if name == "inspect" else [self.model, "--data", self.data()]
            if name in ("build", "cover"):
                self.results[name] = "-"
                continue
            self.refused(name, arguments, "decision trees")

    def refused(self, name, arguments, why):
        """A command that has to say no, and why."""
        ended = self.call(name, arguments)
        refused = ended.returncode == 2 and why in ended.stderr + ended.stdout
        self.results[name] = "refused" if refused else "no"
        if not refused:
            self.reasons[name] = reason(ended)

    def compare(self, output):
        with np.load(output) as arrays:
            ours = arrays["logits"].astype(np.float64)
        theirs = self.outputs()
        ours = ours.reshape(len(ours), -1)
        if self.export["output"] == "probabilities":
            ours = probabilities(ours, theirs.shape[1])
        if ours.shape != theirs.shape:
            self.results["predict"] = "no"
            self.reasons["predict"] = f"shape {ours.shape}, ONNX Runtime {theirs.shape}"
            return
        difference = np.abs(ours - theirs).max(1)
        if self.export["tolerance"] == "int8":
            quantum = self.quantum(theirs)
            same = (ours.argmax(1) == theirs.argmax(1)).mean()
            # Both sides round their logits to single precision, so two steps may come out a little larger.
            rounding = np.finfo(np.float32).eps * np.abs(theirs).max()
            good = same >= 0.99 and difference.max() <= 2 * quantum + rounding
            self.results["predict"] = f"{difference.max() / quantum:.1f} quanta, {same:.0%}"
        else:
            largest = np.abs(theirs).max(1)
            worst = (difference / (largest if theirs.shape[1] > 1 else largest.max())).max()
            good = worst <= BOUND[self.export["tolerance"]]
            self.results["predict"] = f"{worst:.0e}".replace("e-0", "e-")
        if not good:
            self.reasons["predict"] = f"too far from ONNX Runtime: {self.results['predict']}"

    def exact_line(self):
        """How far both programs are from each other, and each from float64."""
        with np.load(self.folder / f"{self.export['name']}.npz") as arrays:
            (name, x), *others = [(n, arrays[n]) for n in arrays.files if n != "y"]
        output = onnx.load(self.model, load_external_data=False).graph.output[0].name
        try:
            exact = Exact(self.model, output).run(x) if not others else None
        except Unsupported as unknown:
            return f"{self.export['name']:28} not evaluated in float64: {unknown}"
        if exact is None:
            return f"{self.export['name']:28} not evaluated in float64: several inputs"
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "out.npz"
            ended = self.call("predict", [self.model, "--data", self.data(), "--output", file])
            if ended.returncode != 0:
                return f"{self.export['name']:28} {reason(ended)}"
            with np.load(file) as arrays:
                ours = arrays["logits"].astype(np.float64).reshape(len(x), -1)
        theirs, exact = self.outputs(), exact.reshape(len(x), -1)
        apart = lambda a, b: (np.abs(a - b).max(1) / np.abs(b).max(1)).max()
        numbers = apart(ours, theirs), apart(ours, exact), apart(theirs, exact)
        return f"{self.export['name']:28} {numbers[0]:8.0e} {numbers[1]:8.0e} {numbers[2]:12.0e}"

    def outputs(self):
        """What ONNX Runtime made of the inputs: the first output of numbers that are no labels."""
        with np.load(self.folder / f"{self.export['name']}-outputs.npz") as arrays:
            values = [arrays[name] for name in arrays.files]
        values = next(v for v in values if v.dtype.kind == "f")
        return values.reshape(len(values), -1).astype(np.float64)

    def quantum(self, theirs):
        """The scale of the output, or a 255th of its range where it is not quantised."""
        graph = onnx.load(self.model).graph
        last = next(n for n in graph.node if graph.output[0].name in n.output)
        if last.op_type == "DequantizeLinear":
            scale = next(t for t in graph.initializer if t.name == last.input[1])
            return float(numpy_helper.to_array(scale))
        return (theirs.max() - theirs.min()) / 255

    def good(self):
        return not self.reasons

    def line(self):
        results = [self.results.get(name, "-") for name in COMMANDS]
        return f"| {self.export['name']} | {self.export['source']} | " + " | ".join(results) + " |"


def probabilities(logits, classes):
    """The model's ending, which npcov takes off."""
    if logits.shape[1] == 1 and classes == 2:
        p = 1 / (1 + np.exp(-logits))
        return np.hstack([1 - p, p])
    if np.allclose(logits.sum(1), 1) and (logits >= 0).all():
        return logits
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def reason(ended):
    """The error as npcov says it, in a line."""
    text = " ".join((ended.stderr.strip() or ended.stdout.strip()).split())
    return re.sub(r"^error: ", "", text)[:300]


def write(rows, good):
    page = PAGE.read_text()
    head = ["| export | made by | " + " | ".join(COMMANDS) + " |", "|" + "---|" * (2 + len(COMMANDS))]
    failed = [
        f"* `{row.export['name']}`, {command}: {reason}"
        for row in rows
        for command, reason in row.reasons.items()
    ]
    lines = [BEGIN, "", *head, *(row.line() for row in rows), "", f"{good} of {len(rows)} pass."]
    if failed:
        lines += ["", "What does not:", "", *failed]
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + "\n".join([*lines, "", END]) + rest.split(END)[1])


if __name__ == "__main__":
    sys.exit(main())
