"""Writes ResNet-50 for images of 224x224 with random weights, for `engines.py` on machines without PyTorch:

    .venv-test/bin/python benches/python/resnet50.py resnet50-224.onnx
    python benches/python/engines.py --model resnet50-224.onnx --random --inputs 24 --few 9

The shapes are torchvision's: stages of 3, 4, 6 and 3 blocks, the stride in the middle of a block. Batch norm is folded into
the convolutions, as exporters do it.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes and weights, one after the other."""

    def __init__(self) -> None:
        self.numbers = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *shape: int, scale: float) -> str:
        name = f"weight{len(self.weights)}"
        numbers = (self.numbers.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(numbers, name))
        return name

    def conv(self, x: str, inside: int, outside: int, size: int, stride: int = 1, gain: float = 2.0) -> str:
        scale = (gain / (inside * size * size)) ** 0.5
        weights = self.weight(outside, inside, size, size, scale=scale), self.weight(outside, scale=0.01)
        shape = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [size // 2] * 4}
        return self.node("Conv", x, *weights, **shape)

    def block(self, x: str, inside: int, width: int, stride: int) -> str:
        y = self.node("Relu", self.conv(x, inside, width, 1))
        y = self.node("Relu", self.conv(y, width, width, 3, stride))
        # What a block adds is small, so that sixteen of them add up to something of the size of the first.
        y = self.conv(y, width, 4 * width, 1, gain=0.2)
        if stride != 1 or inside != 4 * width:
            x = self.conv(x, inside, 4 * width, 1, stride, gain=1.0)
        return self.node("Relu", self.node("Add", y, x))


def resnet50() -> onnx.ModelProto:
    network = Network()
    x = network.node("Relu", network.conv("x", 3, 64, 7, 2))
    x = network.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inside = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for place in range(blocks):
            x = network.block(x, inside, width, 2 if stage > 0 and place == 0 else 1)
            inside = 4 * width
    x = network.node("Flatten", network.node("GlobalAveragePool", x))
    logits = network.node("Gemm", x, network.weight(1000, inside, scale=0.02), network.weight(1000, scale=0.01), transB=1)
    graph = helper.make_graph(
        network.nodes,
        "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT, ["batch", 1000])],
        network.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    model = resnet50()
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])
