#!/usr/bin/env python3
"""Checks that relevances computed by npcov agree with ONNX Runtime.

    scripts/agreement_relevance.py --npcov target/release/npcov

`npcov compile --program explain --input-relevance` writes what npcov computes
as plain ONNX operators. For every model in fixtures/ and fixtures/attention/
that file runs in ONNX Runtime on 64 images or less, and `npcov explain --output` computes the same natively.

For every image and every array (the logits, each path layer, the input),
max|a - b| <= 1e-4 max|b| shall hold. `worst` is the largest ratio of all, and
where it is; `above` counts the images that are above the bound in some array.

Relevance is no continuous function: it jumps where an argmax changes (a max
pool over equal values, two logits that are equal but for rounding), and it is
steep where a rule divides by a sum close to zero. What an image above the bound
needs to pass says exact.Tally; each is listed above its model.

Needs requirements-test.txt.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from agreement import classifiers_of_images, ROOT, TOLERANCE, ratios
from exact import Tally
from reference import fit

INPUTS = 64
BATCH = 8
TRANSFORMER = {
    "": [],
    " (attnlrp)": ["--attribution", "attnlrp"],
    " (heads)": ["--path-layers", "heads,residual", "--token", "0"],
}
"""Ways to explain transformers, each of which is compared."""
WAYS = {
    "vit": TRANSFORMER,
    "attention/": TRANSFORMER,
}
"""By the beginning of a model's name."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--fixtures", type=Path, default=ROOT / "fixtures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="run only models whose name contains this")
    options = parser.parse_args()
    folders = (options.fixtures, options.fixtures / "attention")
    models = [m for folder in folders for m in classifiers_of_images(folder)]
    # A program of two inputs takes data that one array cannot be.
    models = [m for m in models if options.only in str(m) and m.name != "bert-mask.onnx"]
    fashion = np.load(options.fixtures / "fashion-1000.npz")["x"][:INPUTS]

    columns = f"{'images':>6} {'arrays':>6} {'worst':>9} {'in':15} {'above':>5}"
    print(f"{'model':28} {columns}")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for model in models:
            own = model.with_suffix(".npz")
            x = np.load(own)["x"] if own.exists() else fashion
            name = str(model.relative_to(options.fixtures))
            ways = next((w for start, w in WAYS.items() if name.startswith(start)), {"": []})
            for way, arguments in ways.items():
                good = report(name + way, model, x, options, Path(scratch), arguments)
                passed += good
                failed += not good
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


def report(name, model, x, options, scratch, arguments):
    try:
        ours, batch, program = run_npcov(model, x, options, scratch, arguments)
    except subprocess.CalledProcessError as error:
        print(f"{name:28} FAILED\n    {error.stderr.strip()}".replace("\n", "\n    "))
        return False
    images = x if x.dtype != np.uint8 else x.astype(np.float32) / np.float32(255)
    theirs = run_onnx_runtime(program, images, batch, options.threads)
    names = [name for name in ours if name != "prediction"]
    if set(names) != set(theirs):
        print(f"{name:28} FAILED  arrays {sorted(names)}, expected {sorted(theirs)}")
        return False
    table = compare(ours, theirs)
    worst = max(table, key=lambda name: table[name].max())
    largest = np.max(list(table.values()), axis=0)
    tally, shape = Tally(), input_of(session_for(program, 1)).shape
    for row in np.flatnonzero(largest > TOLERANCE):
        # A program for several inputs computes each by itself: it gets the same one everywhere.
        image = np.repeat(fit(images[row : row + 1], shape), shape[0], axis=0)
        pair = ({name: arrays[name][row] for name in names} for arrays in (ours, theirs))
        tally.judge(f"image {row}", program, [image], *pair)
    # Where a layer nearly cancels, either runtime may be the farther one: of one image in fifty npcov may be.
    good = tally.failed <= len(x) // 50 and tally.beyond == 0
    print(
        f"{name:28} {len(x):6} {len(names):6} {largest.max():9.1e} {worst:15} "
        f"{tally.above:5}  {'' if good else 'FAILED'}".rstrip(),
        flush=True,
    )
    return good


def run_npcov(model, x, options, scratch, rules):
    """What npcov computes, the batch size of the program that it writes, and that program."""
    data, output, program = (scratch / name for name in ("data.npz", "out.npz", "program.onnx"))
    np.savez(data, x=x)
    explain = ["explain", model, "--data", data, "--output", output]
    explain += ["--divide", "255"] if x.dtype == np.uint8 else []
    explain += ["--input-relevance", "--threads", str(options.threads), *rules]
    compile = ["compile", model, "--program", "explain", "--input-relevance"]
    compile += ["--output", program, *rules]
    # A file that fixes its batch size at one cannot be run on eight.
    batch = 1 if "-batch1" in model.name else BATCH
    for arguments in (explain, [*compile, "--batch", str(batch)]):
        subprocess.run([options.npcov, *arguments], check=True, capture_output=True, text=True)
    with np.load(output) as arrays:
        return {name: arrays[name] for name in arrays.files}, batch, program


def session_for(program, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(str(program), options, providers=providers)


def input_of(session):
    (given,) = session.get_inputs()
    return given


def run_onnx_runtime(program, x, batch, threads):
    session = session_for(program, threads)
    given = input_of(session)
    names = [output.name for output in session.get_outputs()]
    dtype = np.int64 if given.type == "tensor(int64)" else np.float32
    x = np.ascontiguousarray(fit(x, given.shape), dtype)
    parts = [session.run(names, {given.name: x[i : i + batch]}) for i in range(0, len(x), batch)]
    return {name: np.concatenate(values) for name, values in zip(names, zip(*parts))}


def compare(ours, theirs):
    """For each array, the ratio of every image."""

    def rows(array):
        return array.reshape(len(array), -1)

    def ratio(name):
        a, b = rows(ours[name]), rows(theirs[name])
        if a.shape != b.shape:
            raise SystemExit(f"`{name}` has shape {a.shape}, expected {b.shape}")
        return np.nan_to_num(ratios(a, b), nan=np.inf)

    return {name: ratio(name) for name in theirs}


if __name__ == "__main__":
    sys.exit(main())
