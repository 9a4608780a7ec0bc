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
steep where a rule divides by a sum close to zero. So a model passes with up to
two images of 64 above the bound, and each of these is listed below its model
with the distance of both runtimes from the same program in float64 (exact.py).

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
from exact import Exact, Unsupported
from reference import fit

INPUTS = 64
ABOVE = 2
"""Images that may be above the bound."""
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
    "lstm": {"": ["--rule", "LSTM=epsilon:0.01"]},
    "gru": {"": ["--rule", "GRU=epsilon:0.01"]},
}
"""By the beginning of a model's name. Relevance goes through 28 steps of a recurrent layer, each
of which divides by states that may be close to zero: with the default epsilon of 1e-3, three of 64
images are at 1.1e-4 to 1.5e-4."""


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
    above = np.flatnonzero(largest > TOLERANCE)
    good = len(above) <= ABOVE
    print(
        f"{name:28} {len(x):6} {len(names):6} {largest.max():9.1e} {worst:15} "
        f"{len(above):5}  {'' if good else 'FAILED'}".rstrip()
    )
    for row in above[: ABOVE + 1]:
        name = max(table, key=lambda name: table[name][row])
        print(f"    image {row}: {table[name][row]:.1e} in {name}", end="; ")
        print(exact_distance(program, name, images[row : row + 1], ours, theirs, row), flush=True)
    return good


def exact_distance(program, name, image, ours, theirs, row):
    """How far both runtimes are from float64 in one array of one image."""
    shape = input_of(session_for(program, 1)).shape
    try:
        # A program for several inputs computes each by itself: it gets the same one everywhere.
        inputs = np.repeat(fit(image, shape), shape[0], axis=0)
        exact = Exact(program, name).evaluate(inputs)[name].reshape(shape[0], -1)[:1]
    except Unsupported as unknown:
        return f"not evaluated in float64: {unknown}"
    npcov, onnx_runtime = (
        float(ratios(answer[name][row : row + 1].reshape(1, -1), exact).max())
        for answer in (ours, theirs)
    )
    return f"from float64: npcov {npcov:.1e}, ONNX Runtime {onnx_runtime:.1e}"


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
