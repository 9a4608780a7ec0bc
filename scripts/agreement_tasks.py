#!/usr/bin/env python3
"""Checks relevances against ONNX Runtime where outputs are no logits of images: other tasks, inputs and precisions.

    scripts/agreement_tasks.py --npcov target/release/npcov [--only PART]

As agreement_relevance.py does for classifiers of images: `npcov compile --program explain` writes what npcov computes
as plain ONNX operators, which ONNX Runtime runs, and `npcov explain` computes the same natively. Here for numbers (in
all directions), single logits, smallest scores, tokens with a mask, several inputs, tables, quantised models, half
precision, 3-D convolutions, a state before the first step, and the largest elements of an axis. |a - b| <= 1e-4 max|b| shall hold in every array of every input, or npcov be as near to
the same program in float64 as exact.Tally says. Quantised models too: integers add up exactly in both, so that
both round the same numbers. Needs requirements-test.txt.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from exact import Tally
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
INPUTS = 50
NUMBERS = ["--task", "regression", "--reference", "3000"]
EXPORTS = [
    "conv3d", "qdq-cnn", "qoperator-cnn", "dynamic-cnn", "dynamic-mlp", "sklearn-logistic",
    "sklearn-mlp-two", "sklearn-pipeline-long", "sklearn-encoded", "half",
]


def cases(fixtures):
    """Name, model, data as arrays by input, and options for both commands."""
    with open(fixtures / "prices-test.csv") as file:
        rows = [{k: float(v) for k, v in row.items() if k != "price"} for row in csv.DictReader(file)]
    prices = {"diamond": np.array([list(row.values()) for row in rows], np.float32)}
    images = np.load(fixtures / "fashion-1000.npz")["x"][:INPUTS].astype(np.float32) / 255
    for direction in ("deviation", "output", "up", "from-reference"):
        options = [*NUMBERS, "--direction", direction]
        yield f"prices ({direction})", fixtures / "prices.onnx", prices, options
    numbers = ["--task", "regression:1", "--reference", "0.3"]
    yield "two-numbers", fixtures / "two-numbers.onnx", {"": images}, numbers
    yield "one-logit", fixtures / "one-logit.onnx", {"": images}, ["--task", "classification"]
    yield "distances", fixtures / "distances.onnx", {"": images}, ["--task", "classification:argmin"]
    mask = (np.arange(10) % 2 == np.arange(len(images))[:, None] % 2).astype(np.int64)
    yield "two-inputs", fixtures / "two-inputs.onnx", {"image": images, "mask": mask}, []
    masked = dict(np.load(fixtures / "attention/bert-mask.npz"))
    masked = {name: masked[name] for name in ("input_ids", "attention_mask")}
    for way, options in {"": [], " (attnlrp)": ["--attribution", "attnlrp"]}.items():
        yield f"bert-mask{way}", fixtures / "attention/bert-mask.onnx", masked, options
    for name in EXPORTS:
        arrays = dict(np.load(fixtures / f"exports/{name}.npz"))
        arrays.pop("y")
        yield name, fixtures / f"exports/{name}.onnx", arrays, []
    sequences = {"x": np.load(fixtures / "sequences/initial.npz")["x"]}
    yield "initial", fixtures / "sequences/initial.onnx", sequences, []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "largest.onnx"
        onnx.save(largest(), model)
        yield "largest", model, {"x": images.reshape(len(images), 28, 28)}, []


def largest():
    """A convolution over the rows of an image, whose three largest outputs of each channel decide (k-max pooling)."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((8, 28, 3)) * 0.2,
        "b": rng.standard_normal(8) * 0.1,
        "v": rng.standard_normal((24, 10)),
    }
    constants = {name: array.astype(np.float32) for name, array in constants.items()}
    constants |= {"k": np.array([3]), "flat": np.array([-1, 24])}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["z"], pads=[1, 1]),
        helper.make_node("Relu", ["z"], ["h"]),
        helper.make_node("TopK", ["h", "k"], ["top", "places"], axis=2),
        helper.make_node("Reshape", ["top", "flat"], ["features"]),
        helper.make_node("MatMul", ["features", "v"], ["logits"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["batch", 28, 28])]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", 10])]
    constants = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "largest", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--fixtures", type=Path, default=ROOT / "fixtures")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    failed = compared = 0
    for name, model, arrays, extra in cases(options.fixtures):
        if options.only not in name:
            continue
        try:
            tally, worst = compare(options.npcov, model, arrays, extra)
        except subprocess.CalledProcessError as error:
            print(f"{name:28} FAILED {error.stderr.strip()}")
            failed += 1
            continue
        verdict = "  FAILED" if tally.failed else ""
        print(f"{name:28} worst {worst:.1e}; {tally}{verdict}", flush=True)
        failed += tally.failed > 0
        compared += 1
    print(f"{compared} compared, {failed} failed")
    return 0 if compared and not failed else 1


def compare(npcov, model, arrays, extra):
    """What there is to say of each input, and the largest distance of an array."""
    with tempfile.TemporaryDirectory() as folder:
        data, output, program = (Path(folder) / name for name in ("data.npz", "out.npz", "program.onnx"))
        named = {name or "x": values for name, values in arrays.items()}
        np.savez(data, **named)
        given = f"{data}:{next(iter(named))}" if len(named) == 1 else data
        run(npcov, "explain", model, "--data", given, "--output", output, "--input-relevance", *extra)
        run(npcov, "compile", model, "--program", "explain", "--input-relevance", "--batch", 1, "--output", program, *extra)
        with np.load(output) as file:
            ours = {name: file[name] for name in file.files}
        tally, worst = Tally(), 0.0
        for row, (inputs, theirs) in enumerate(onnx_runtime(program, arrays)):
            own = {name: ours[name][row] for name in theirs}
            worst = max(worst, tally.judge(f"input {row}", program, inputs, own, theirs))
    return tally, worst


def run(npcov, *arguments):
    command = [str(word) for word in (npcov, *arguments, "--quiet")]
    subprocess.run(command, check=True, capture_output=True, text=True)


def onnx_runtime(program, arrays):
    """Of each input, what the program is given and what comes out, by name."""
    session = onnxruntime.InferenceSession(str(program), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    types = {"tensor(int64)": np.int64, "tensor(float16)": np.float16}
    for i in range(len(next(iter(arrays.values())))):
        feed = {}
        for given in session.get_inputs():
            values = arrays[given.name] if given.name in arrays else next(iter(arrays.values()))
            values = values[i : i + 1].astype(types.get(given.type, np.float32))
            feed[given.name] = values.reshape(given.shape)
        yield list(feed.values()), dict(zip(names, session.run(names, feed)))


if __name__ == "__main__":
    sys.exit(main())
