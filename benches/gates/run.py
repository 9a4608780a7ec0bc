#!/usr/bin/env python3
"""How often the default gate (`npcov check STATE --against EARLIER`) fails, and how often it should.

    benches/gates/run.py --npcov target/release/npcov --models models/fashion-[3-8].onnx \
        --train data/merged/fashion-train.npz --test data/merged/fashion-test.npz \
        [--limit 10000] [--size 2000] [--draws 200] [--options "--divide 255"] [--keep FOLDER]

The models are trainings of one architecture. For each a decision graph is built
from `--limit` training inputs, and the whole test set is measured, once. Suites
are drawn from what was measured: a state keeps what each input covers, so the
state of some inputs is made of theirs, to the byte what measuring them alone
gives (`--verify` measures one draw anew and compares). Then the gate is asked,
by the program itself.

Rows: another draw of the same size, disjoint; the same suite with another
training that is as accurate, within a point; a class gone, by its label; a cluster gone that has at
least a twentieth of its class and is large enough to be missed; half of the suite replaced by copies of
the other half; a random twentieth removed; another draw of half the size; and a class gone from suites
that have no labels, where the gate can count only predictions. Where something is gone, it also counts
whether the gate names it. Rates have Clopper-Pearson intervals of 95 %. Classes whose loss is not seen
are listed, with how many of the inputs that are classified as such are right.

Needs NumPy.
"""

import argparse
import hashlib
import json
import math
import re
import shlex
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

TYPES = {"U32": "<u4", "I64": "<i8", "F64": "<f8", "U64": "<u8", "F32": "<f4", "U8": "u1"}

# What stands in the place of a label where an input has none.
NO_LABEL = -(1 << 63)

# The tensor of checksums in a file, and the bytes that each but the last is of.
SEAL, BLOCK = "npcov.sha256", 1 << 16


class State:
    """A coverage state of one suite, measured by SNPC."""

    def __init__(self, path):
        content = Path(path).read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        self.record = json.loads(header.pop("__metadata__")["npcov"])
        self.tensors, self.types = {}, {}
        del header[SEAL]
        for name, entry in header.items():
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            array = np.frombuffer(content[start:end], TYPES[entry["dtype"]])
            self.tensors[name] = array.reshape(entry["shape"])
            self.types[name] = entry["dtype"]
        self.inputs = len(self.tensors["0.prediction"])
        lengths = self.tensors["0.snpc.inputs.lengths"].astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])

    def pick(self, rows, path, labels=True):
        """Writes the state of some of the inputs, with or without their labels."""
        slots = self.tensors["0.snpc.inputs"]
        lists = [slots[self.starts[row] : self.starts[row + 1]] for row in rows]
        lists = np.concatenate(lists) if lists else slots[:0]
        bits = np.zeros(64 * len(self.tensors["0.snpc.buckets"]), bool)
        bits[lists] = True
        picked = {}
        for name, array in self.tensors.items():
            if name == "0.snpc.inputs":
                picked[name] = lists
            elif name == "0.snpc.buckets":
                picked[name] = np.packbits(bits, bitorder="little").view("<u8")
            elif name == "0.label" and not labels:
                picked[name] = np.full(len(rows), NO_LABEL, array.dtype)
            elif name.startswith("0.") and array.ndim and len(array) == self.inputs:
                picked[name] = array[rows]
            else:
                picked[name] = array
        record = json.loads(json.dumps(self.record))
        data = record["suites"][0]["shards"][0]["sha256"]
        record["suites"][0]["shards"] = [{"sha256": data, "start": 0, "end": len(rows)}]
        contents = {name: np.ascontiguousarray(array).tobytes() for name, array in picked.items()}
        blocks = b"".join(digests(contents[name]) for name in sorted(contents))
        header = {"__metadata__": {"npcov": json.dumps(record, sort_keys=True)}}
        offset = 0
        for name, content in contents.items():
            header[name] = {
                "dtype": self.types[name],
                "shape": list(picked[name].shape),
                "data_offsets": [offset, offset + len(content)],
            }
            offset += len(content)
        rows = len(blocks) // 32 + 1
        offsets = [offset, offset + 32 * rows]
        header[SEAL] = {"dtype": "U8", "shape": [rows, 32], "data_offsets": offsets}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        start = struct.pack("<Q", len(text)) + text
        with open(path, "wb") as file:
            for content in [start, *contents.values(), blocks]:
                file.write(content)
            file.write(hashlib.sha256(start + blocks).digest())
        return path


def digests(content):
    """Of each block of a tensor, one after the other."""
    blocks = [content[start : start + BLOCK] for start in range(0, len(content), BLOCK)]
    return b"".join(hashlib.sha256(block).digest() for block in blocks)


class Model:
    """A training, its graph, and what was measured of the test set."""

    def __init__(self, options, folder, model):
        stem = folder / Path(model).stem
        graph, state = Path(f"{stem}.graph"), Path(f"{stem}.state")
        if not graph.exists():
            build = [options.npcov, "build", model, "--data", options.train]
            build += ["--limit", str(options.limit), "--criteria", "snpc", "-o", str(graph)]
            run(build + shlex.split(options.options))
        if not state.exists():
            run([options.npcov, "cover", str(graph), "--data", options.test, "-o", str(state)])
        self.graph = graph
        self.state = State(state)
        self.labels = self.state.tensors["0.label"]
        self.predictions = self.state.tensors["0.prediction"]
        self.clusters = self.state.tensors["0.cluster"]
        self.accuracy = np.mean(self.labels == self.predictions)


def run(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Gate:
    """The program's verdict about two suites."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        # Whether there were labels, a label whose loss was not seen, and the share of right ones among such
        # predictions.
        self.unseen = []

    def check(self, new, new_rows, old, old_rows, labels=True):
        """Whether the gate fails, and what it prints."""
        now = new.state.pick(new_rows, self.folder / "new.state", labels)
        then = old.state.pick(old_rows, self.folder / "old.state", labels)
        command = [self.options.npcov, "check", str(now), "--against", str(then)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        return done.returncode == 1, done.stdout

    def report(self, model, rows):
        state = model.state.pick(rows, self.folder / "one.state")
        command = [self.options.npcov, "report", str(state), "--format", "json"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def draw(random, model, size):
    return np.sort(random.permutation(model.state.inputs)[:size])


def other_draw(gate, random, models, size):
    model = models[random.integers(len(models))]
    order = random.permutation(model.state.inputs)
    return gate.check(model, order[:size], model, order[size : 2 * size])[0], None


def smaller_draw(gate, random, models, size):
    model = models[random.integers(len(models))]
    order = random.permutation(model.state.inputs)
    return gate.check(model, order[: size // 2], model, order[size : 2 * size])[0], None


def retrained(gate, random, models, size):
    pairs = [
        (new, old)
        for new in models
        for old in models
        if new is not old and abs(new.accuracy - old.accuracy) <= 0.01
    ]
    if not pairs:
        return None, None
    new, old = pairs[random.integers(len(pairs))]
    rows = draw(random, new, size)
    return gate.check(new, rows, old, rows)[0], None


def class_gone(gate, random, models, size, labels=True):
    model = models[random.integers(len(models))]
    rows = draw(random, model, size)
    gone = random.choice(np.unique(model.labels[rows]))
    failed, text = gate.check(model, rows[model.labels[rows] != gone], model, rows, labels)
    if not failed:
        right = np.mean(model.labels[model.predictions == gone] == gone)
        gate.unseen.append((labels, int(gone), right))
    # The class itself, not a cluster of it.
    return failed, re.search(rf"(?<!of )class {gone}\b[^;:]*: ", text) is not None


def unlabelled_class_gone(gate, random, models, size):
    return class_gone(gate, random, models, size, labels=False)


def cluster_gone(gate, random, models, size):
    model = models[random.integers(len(models))]
    rows = draw(random, model, size)
    suite = gate.report(model, rows)["suites"][0]
    inputs = [entry["inputs"] for entry in suite["classes"]]
    candidates = [
        cluster
        for cluster in suite["clusters"]
        if cluster["expected"] >= 0.05 * inputs[cluster["class"]] > 0
        # Without it the class has fewer inputs.
        and cluster["enough"] <= inputs[cluster["class"]] - cluster["inputs"]
        and not cluster["thin"]
    ]
    if not candidates:
        return None, None
    gone = candidates[random.integers(len(candidates))]["cluster"]
    failed, text = gate.check(model, rows[model.clusters[rows] != gone], model, rows)
    return failed, f"cluster {gone} of class" in text


def copies(gate, random, models, size):
    model = models[random.integers(len(models))]
    rows = draw(random, model, size)
    half = random.permutation(rows)[: size // 2]
    failed, text = gate.check(model, np.concatenate([half, half]), model, rows)
    return failed, "are copies of others" in text


def fewer(gate, random, models, size):
    model = models[random.integers(len(models))]
    rows = draw(random, model, size)
    kept = np.sort(random.permutation(rows)[: size - size // 20])
    return gate.check(model, kept, model, rows)[0], None


ROWS = [
    ("same data, other draw", "at most 5 %", other_draw),
    ("same suite, model trained again", "at most 10 %", retrained),
    ("a class gone", "fails", class_gone),
    ("a cluster of at least 5 % of its class gone", "fails", cluster_gone),
    ("half replaced by copies of the other half", "fails", copies),
    ("a random 5 % removed", "passes", fewer),
    ("same data, other draw of half the size", "at most 5 %", smaller_draw),
    ("a class gone, no labels", "fails where it is known", unlabelled_class_gone),
]


def at_most(k, n, p):
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def interval(k, n, level=0.025):
    """Clopper and Pearson's interval for a rate of which k of n are known."""

    def solve(found):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if found(middle) else (low, middle)
        return low

    lower = 0.0 if k == 0 else solve(lambda p: 1 - at_most(k - 1, n, p) < level)
    upper = 1.0 if k == n else solve(lambda p: at_most(k, n, p) > level)
    return lower, upper


def verify(options, folder, model):
    """Measures the first inputs anew, and compares with the state that is picked."""
    measured = folder / "measured.state"
    run([options.npcov, "cover", str(model.graph), "--data", options.test]
        + ["--limit", "500", "-o", str(measured)])
    picked = State(model.state.pick(np.arange(500), folder / "picked.state"))
    for name, array in State(measured).tensors.items():
        if not np.array_equal(array, picked.tensors[name]):
            raise SystemExit(f"{name} of a draw is not what measuring gives")
    print("a draw is what measuring gives", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--limit", type=int, default=10000)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--options", default="--divide 255")
    parser.add_argument("--keep", type=Path, help="a folder for graphs and states, which then stay")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        models = [Model(options, folder, model) for model in options.models]
        if options.verify:
            verify(options, Path(temporary), models[0])
        right = [model.accuracy for model in models]
        print(f"{len(models)} models, accuracy {min(right):.2%} to {max(right):.2%}", flush=True)
        gate = Gate(options, Path(temporary))
        print("| what changed | should | fails | 95 % interval | named |")
        print("|---|---|---|---|---|")
        for number, (title, should, case) in enumerate(ROWS):
            random = np.random.default_rng(number)
            found = [case(gate, random, models, options.size) for _ in range(options.draws)]
            found = [(failed, named) for failed, named in found if failed is not None]
            failed, count = sum(failed for failed, _ in found), len(found)
            if not count:
                print(f"| {title} | {should} | no such case | | |", flush=True)
                continue
            lower, upper = interval(failed, count)
            named = [named for _, named in found if named is not None]
            named = f"{sum(named)} of {len(named)}" if named else ""
            print(
                f"| {title} | {should} | {failed} of {count} | {lower:.1%} to {upper:.1%} | {named} |",
                flush=True,
            )
        for case in sorted({(labels, label) for labels, label, _ in gate.unseen}):
            right = [right for *other, right in gate.unseen if tuple(other) == case]
            labels = "" if case[0] else " without labels"
            print(f"not seen{labels}: class {case[1]}, {len(right)} times; of the inputs classified as "
                  f"it {min(right):.0%} to {max(right):.0%} are right")


if __name__ == "__main__":
    main()
