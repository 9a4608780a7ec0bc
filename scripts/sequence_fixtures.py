#!/usr/bin/env python3
"""Makes the fixtures of sequences that are shorter than others.

    scripts/sequence_fixtures.py

    fixtures/sequences/padded-4.onnx    LSTM of 3 units on 2 features, a dense layer on its last state: for 4 steps, of
                                        which an input `lengths` says how many count
    fixtures/sequences/padded-6.onnx    the same weights for 6 steps
    fixtures/sequences/padded-4.npz     40 sequences of 2 to 4 steps and their lengths, random numbers behind them,
                                        labels `y`, and `expected`, the logits by ONNX Runtime
    fixtures/sequences/padded-6.npz     the same sequences, other numbers behind them
    fixtures/sequences/initial.onnx     the same weights for 4 steps, from a state other than zero on
    fixtures/sequences/initial.npz      20 sequences of 4 steps, and `expected`, the logits by ONNX Runtime

Random weights, seed 0. Needs requirements-fixtures.txt.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "sequences"
FEATURES, UNITS, CLASSES, SEQUENCES = 2, 3, 2, 40


def model(weights, steps):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["x"], ["by_step"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["by_step", "W", "R", "", "lengths"], ["", "last"], hidden_size=UNITS),
        helper.make_node("Squeeze", ["last", "direction"], ["state"]),
        helper.make_node("MatMul", ["state", "V"], ["logits"]),
    ]
    inputs = [
        value("x", TensorProto.FLOAT, ["batch", steps, FEATURES]),
        value("lengths", TensorProto.INT32, ["batch"]),
    ]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", CLASSES])]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "padded", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def from_state(weights, states):
    """All sequences begin in the same state, as PyTorch writes a learnt one that is expanded to the batch."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["x"], ["count"], start=0, end=1),
        helper.make_node("Concat", ["one", "count", "units"], ["shape"], axis=0),
        helper.make_node("Expand", ["h0", "shape"], ["initial_h"]),
        helper.make_node("Expand", ["c0", "shape"], ["initial_c"]),
        helper.make_node("Transpose", ["x"], ["by_step"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["by_step", "W", "R", "", "", "initial_h", "initial_c"], ["", "last"], name="lstm", hidden_size=UNITS),
        helper.make_node("Squeeze", ["last", "direction"], ["state"]),
        helper.make_node("MatMul", ["state", "V"], ["logits"]),
    ]
    inputs = [value("x", TensorProto.FLOAT, ["batch", 4, FEATURES])]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", CLASSES])]
    constants = {**weights, **states, "one": np.array([1]), "units": np.array([UNITS])}
    constants = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "initial", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main():
    rng = np.random.default_rng(0)
    numbers = lambda *shape: (rng.standard_normal(shape) * 0.7).astype(np.float32)
    weights = {
        "W": numbers(1, 4 * UNITS, FEATURES),
        "R": numbers(1, 4 * UNITS, UNITS),
        "V": numbers(UNITS, CLASSES),
        "direction": np.array([0]),
    }
    longest = numbers(SEQUENCES, 4, FEATURES)
    lengths = rng.integers(2, 5, SEQUENCES).astype(np.int32)
    y = rng.integers(0, CLASSES, SEQUENCES)
    FIXTURES.mkdir(exist_ok=True)
    for steps in (4, 6):
        file = FIXTURES / f"padded-{steps}"
        onnx.save(model(weights, steps), file.with_suffix(".onnx"))
        x = numbers(SEQUENCES, steps, FEATURES)
        counts = np.arange(4) < lengths[:, None]
        x[:, :4][counts] = longest[counts]
        session = onnxruntime.InferenceSession(file.with_suffix(".onnx"))
        expected = session.run(None, {"x": x, "lengths": lengths})[0]
        np.savez(file.with_suffix(".npz"), x=x, lengths=lengths, y=y, expected=expected)
    file = FIXTURES / "initial"
    states = {"h0": numbers(1, 1, UNITS), "c0": numbers(1, 1, UNITS)}
    onnx.save(from_state(weights, states), file.with_suffix(".onnx"))
    x = numbers(20, 4, FEATURES)
    session = onnxruntime.InferenceSession(file.with_suffix(".onnx"))
    np.savez(file.with_suffix(".npz"), x=x, expected=session.run(None, {"x": x})[0])


if __name__ == "__main__":
    main()
