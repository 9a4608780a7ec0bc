#!/usr/bin/env python3
"""Checks npcov against ONNX Runtime on the full topologies of the ONNX test data.

    scripts/light.py --npcov target/release/npcov

The `light` models of onnx 1.16.2 (AlexNet, DenseNet-121, Inception v1 and v2,
ResNet-50, ShuffleNet, SqueezeNet, VGG-19, ZFNet-512; 1 x 3 x 224 x 224) have
constant weights, under which a wrong kernel can still be right. They get
seeded random ones here, scaled so that activations keep their size, and run on
random inputs under the rules of agreement.py. A rewritten model takes up to
600 MB under target/light and is deleted after its turn unless `--keep`.
Needs requirements-test.txt.
"""

import argparse
import sys
from pathlib import Path

import agreement
import numpy as np
import onnx
from onnx import numpy_helper

INPUTS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=agreement.ROOT / "target/light")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="run only models whose name contains this")
    parser.add_argument("--keep", action="store_true", help="leave the rewritten models")
    options = parser.parse_args()

    sources = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
    if not sources:
        raise SystemExit("this version of onnx has no light models; install requirements-test.txt")
    options.folder.mkdir(parents=True, exist_ok=True)
    x = random_images()

    def cases():
        for source in sources:
            if options.only in source.name:
                target = options.folder / source.name
                target.write_bytes(with_random_weights(onnx.load(source)).SerializeToString())
                yield agreement.Case(target, x)
                if not options.keep:
                    target.unlink()

    return agreement.report(cases(), options, options.folder)


def random_images():
    """Patches of eight by eight pixels and a different contrast for every image: white
    noise would average out before the last layers, and all inputs look alike there."""
    generator = np.random.default_rng(0)
    coarse = generator.standard_normal((INPUTS, 3, 28, 28), np.float32)
    coarse *= np.geomspace(0.5, 2, INPUTS, dtype=np.float32).reshape(-1, 1, 1, 1)
    return coarse.repeat(8, axis=2).repeat(8, axis=3)


def with_random_weights(model):
    """Replaces every weight, a ConstantOfShape or an f32 initialiser, by random values."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(numpy_helper.to_array(constants[node.input[0]]))
        else:
            kept.append(node)
    for name, tensor in constants.items():
        if tensor.data_type == onnx.TensorProto.FLOAT:
            shapes[name] = tuple(tensor.dims)

    generator = np.random.default_rng(0)
    weights = {}
    for name, node, position in uses(kept):
        if name in shapes and name not in weights:
            value = draw(generator, node, position, shapes[name])
            weights[name] = numpy_helper.from_array(value, name)

    # A weight that no node uses is dropped with its ConstantOfShape.
    integers = [t for t in graph.initializer if t.name not in shapes]
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.initializer[:], graph.node[:], graph.input[:]
    graph.initializer.extend([*integers, *weights.values()])
    graph.node.extend(kept)
    # From IR version 4 on an initialiser need not be a graph input as well.
    graph.input.extend(inputs)
    model.ir_version = 8
    return model


def uses(nodes):
    """(tensor, node, position) in graph order, looking through Unsqueeze and Reshape."""
    looked_through = {"Unsqueeze", "Reshape"}
    origin = {node.output[0]: node.input[0] for node in nodes if node.op_type in looked_through}
    for node in nodes:
        if node.op_type not in looked_through:
            for position, name in enumerate(node.input):
                yield origin.get(name, name), node, position


def draw(generator, node, position, shape):
    """A value for a weight, by the role it plays in the node."""
    role = (node.op_type, position)
    if role in {("BatchNormalization", 1), ("BatchNormalization", 4)} or node.op_type == "Mul":
        # Scales and variances are positive and around one.
        value = generator.uniform(0.5, 1.5, shape)
    elif role in {("Conv", 1), ("Gemm", 1)}:
        by_row = any(a.name == "transB" and a.i for a in node.attribute)
        inputs = np.prod(shape[1:]) if node.op_type == "Conv" else shape[-1 if by_row else -2]
        # He's scale: Relu halves the second moment, the weights double it.
        value = generator.standard_normal(shape, np.float32) * np.sqrt(2 / inputs)
    elif role in {("Conv", 2), ("Gemm", 2), ("BatchNormalization", 2), ("BatchNormalization", 3)}:
        value = generator.normal(0, 0.1, shape)
    elif node.op_type == "Add":
        value = generator.normal(0, 0.1, shape)
    else:
        raise ValueError(f"no rule for input {position} of {node.op_type} `{node.output[0]}`")
    return value.astype(np.float32)


if __name__ == "__main__":
    sys.exit(main())
