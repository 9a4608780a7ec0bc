#!/usr/bin/env python3
"""Makes the small models and data of fixtures/report from seed 0: inputs that are no images.

    scripts/report_fixtures.py [--output fixtures/report]

* `iris`: a table of four named features (R. A. Fisher, 1936; as scikit-learn has it), three classes.
* `bumps`: series of 128 steps with noise, after the cylinders, bells and funnels of N. Saito (1994), three classes.

Both models are perceptrons with one hidden layer, trained by scikit-learn. Needs requirements-fixtures.txt.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier


def bumps(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 3
    steps = np.arange(128)
    series = np.empty((count, 1, 128), np.float16)
    for i, label in enumerate(labels):
        start, length = rng.integers(16, 32), rng.integers(32, 96)
        inside = (steps >= start) & (steps <= start + length)
        ramp = (steps - start) / length
        shape = [np.ones(128), ramp, 1 - ramp][label]
        series[i, 0] = (6 + rng.normal()) * shape * inside + rng.normal(size=128)
    return series, labels.astype(np.int64)


def write(path: Path, mlp: MLPClassifier, shape: list[int]) -> None:
    """A perceptron as ONNX: Flatten, Gemm, Relu, Gemm."""
    tensors, nodes, value = [], [helper.make_node("Flatten", ["x"], ["flat"])], "flat"
    for i, (weights, bias) in enumerate(zip(mlp.coefs_, mlp.intercepts_)):
        tensors += [numpy_helper.from_array(weights.astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(bias.astype(np.float32), f"b{i}")]
        last = i + 1 == len(mlp.coefs_)
        out = "logits" if last else f"h{i}"
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [out], name=f"dense{i}"))
        value = out
        if not last:
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"], name=f"relu{i}"))
            value = f"r{i}"
    graph = helper.make_graph(
        nodes, "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", mlp.coefs_[-1].shape[1]])],
        tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("fixtures/report"))
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    iris = load_iris()
    x, y = iris.data.astype(np.float32), iris.target.astype(np.int64)
    mlp = MLPClassifier((24, 16), random_state=0, max_iter=2000).fit(x, y)
    print(f"iris: {mlp.score(x, y):.3f}")
    write(output / "iris.onnx", mlp, [4])
    np.savez_compressed(output / "iris.npz", x=x, y=y, class_names=np.array(list(iris.target_names)))
    (output / "iris-features.txt").write_text("\n".join(iris.feature_names) + "\n")

    series, labels = bumps(240, np.random.default_rng(0))
    flat = series.reshape(len(series), -1).astype(np.float32)
    mlp = MLPClassifier((24, 16), random_state=0, max_iter=500).fit(flat, labels)
    print(f"bumps: {mlp.score(flat, labels):.3f}")
    write(output / "bumps.onnx", mlp, [1, 128])
    names = np.array(["cylinder", "bell", "funnel"])
    np.savez_compressed(output / "bumps.npz", x=series, y=labels, class_names=names)


if __name__ == "__main__":
    main()
