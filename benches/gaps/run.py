#!/usr/bin/env python3
"""Does `npcov gaps --pool` find what a suite is missing, and does adding it close the gap?

    benches/gaps/run.py --npcov target/release/npcov --model models/parity-0.onnx \
        --train data/merged/parity-train.npz --test data/merged/parity-test.npz \
        [--graph FILE] [--suite 2000] [--seed 0] [--options "--divide 255"] [--keep FOLDER]

The npz files have `x`, `y` (what the network was taught) and `kind` (a finer label,
which nobody tells npcov). The test images are shuffled; the first `--suite` are the
complete suite, the others the pool. For every kind the suite without it is measured
and its gaps are filled from the pool. A row says what the suite had: gaps, how many
of them have a majority of the missing kind among their typical training inputs;
inputs that were added and the share of the missing kind among them; then gaps that
are left in the suite with those inputs, and whether the default gate, held against
the complete suite, fails before and passes after.

`scripts/train/merged.py` makes the model and the files. Needs NumPy.
"""

import argparse
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--graph", type=Path, help="a decision graph that is there already")
    parser.add_argument("--suite", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", default="--divide 255")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        measure(options, folder)


def measure(options, folder):
    def npcov(arguments, codes=(0,)):
        command = [options.npcov, *shlex.split(arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        return done

    options.npcov = str(Path(options.npcov).resolve())
    graph = options.graph and options.graph.resolve()
    if not graph:
        graph = folder / "graph.npcov"
        train, model = options.train.resolve(), options.model.resolve()
        npcov(f"build {model} --data {train} {options.options} --criteria snpc -o {graph}")
    test, kinds = np.load(options.test), np.load(options.train)["kind"]
    order = np.random.default_rng(options.seed).permutation(len(test["x"]))
    chosen, pool = order[: options.suite], order[options.suite :]

    def write(name, rows):
        np.savez(folder / name, x=test["x"][rows], y=test["y"][rows])

    def cover(name):
        npcov(f"cover {graph} --data {name}.npz --name suite --criteria snpc -o {name}.npcov")

    write("pool.npz", pool)
    write("complete.npz", chosen)
    cover("complete")
    complete = json.loads(npcov(f"gaps {graph} complete.npcov --format json").stdout)
    print(f"complete suite of {len(chosen)}, pool of {len(pool)}: {len(complete['gaps'])} gaps")
    print("kind  gaps  of the kind  added  of the kind  gaps left  gate before  after")
    for kind in np.unique(test["kind"]):
        write("without.npz", chosen[test["kind"][chosen] != kind])
        cover("without")
        arguments = f"gaps {graph} without.npcov --pool pool.npz -o add-{kind}.npz"
        found = json.loads(npcov(f"{arguments} --format json").stdout)
        gaps = found["gaps"]
        named = sum(2 * sum(kinds[e["input"]] == kind for e in gap["exemplars"])
                    > len(gap["exemplars"]) for gap in gaps)
        # An input that fills two gaps is added once.
        added = {input["input"] for gap in gaps for input in gap["add"]}
        added = [pool[input] for input in sorted(added)]
        before = npcov("check without.npcov --against complete.npcov", (0, 1)).returncode
        if added:
            npcov(f"cover {graph} --data add-{kind}.npz --name suite --criteria snpc -o add.npcov")
            npcov("merge without.npcov add.npcov -o filled.npcov")
        else:
            (folder / "filled.npcov").write_bytes((folder / "without.npcov").read_bytes())
        left = json.loads(npcov(f"gaps {graph} filled.npcov --format json").stdout)["gaps"]
        after = npcov("check filled.npcov --against complete.npcov", (0, 1)).returncode
        right = np.mean(test["kind"][added] == kind) if added else 0
        verdict = ("passes", "fails")
        print(f"{kind:4}  {len(gaps):4}  {named:11}  {len(added):5}  {right:11.1%}  {len(left):9}"
              f"  {verdict[before]:>11}  {verdict[after]}", flush=True)


if __name__ == "__main__":
    main()
