"""The fixture models as PyTorch modules again, their weights read from the ONNX files.

LRP tools explain modules, not functions: here every activation, addition and
pool is a module of its own, used once, in the order of the forward pass.
`load` checks against ONNX Runtime that the module computes what the file does.
"""

import fixture_models
import numpy as np
import onnx
import torch
from onnx import numpy_helper
from reference import Reference
from torch import nn
from torch.nn import functional
from zennit.layer import Sum

ACTIVATIONS = (nn.ReLU, nn.Hardswish, nn.SiLU, nn.GELU)
LINEAR = (nn.Conv2d, nn.Linear)


class StackedAddition(nn.Module):
    """An addition as zennit wants it: its `Sum` over a stack."""

    def __init__(self):
        super().__init__()
        self.sum = Sum()

    def forward(self, a, b):
        return self.sum(torch.stack([a, b], -1))


class ResidualBlock(nn.Module):
    """`fixture_models.ResidualBlock`; `shortcut` is None where it is the identity."""

    def __init__(self, inputs, outputs, stride, addition):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.add = addition()
        self.relu2 = nn.ReLU()

    def forward(self, x):
        y = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        return self.relu2(self.add(y, x if self.shortcut is None else self.shortcut(x)))


def resnet8(addition, width=12):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        ResidualBlock(width, width, 1, addition),
        ResidualBlock(width, 2 * width, 2, addition),
        ResidualBlock(2 * width, 4 * width, 2, addition),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


class Gate(nn.Module):
    """Squeeze-excitation. Its inside has functions only, so that it is explained as one
    module and has no path layers."""

    def __init__(self, channels, gate):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)
        self.gate = gate

    def forward(self, x):
        s = functional.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.expand(torch.relu(self.reduce(s))))


class InvertedResidual(nn.Module):
    """`fixture_models.InvertedResidual` with its batch norm folded, as it was exported."""

    def __init__(self, inputs, hidden, outputs, kernel, stride, activation, gate, addition):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1),
            activation(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden),
            activation(),
            Gate(hidden, gate),
            nn.Conv2d(hidden, outputs, 1),
        )
        self.add = addition() if stride == 1 and inputs == outputs else None

    def forward(self, x):
        y = self.body(x)
        return y if self.add is None else self.add(x, y)


def mobilenet(addition):
    hard = (nn.Hardswish, functional.hardsigmoid, addition)
    soft = (nn.SiLU, torch.sigmoid, addition)
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1),
        nn.Hardswish(),
        InvertedResidual(12, 36, 16, 3, 1, *hard),
        InvertedResidual(16, 48, 16, 3, 1, *hard),
        InvertedResidual(16, 64, 24, 5, 2, *soft),
        InvertedResidual(24, 72, 24, 5, 1, *soft),
        nn.Conv2d(24, 96, 1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, 10),
    )


class FirstMaximum(nn.MaxPool2d):
    """Takes the first maximum where PyTorch takes a later one that rounding made larger:
    over a plain background all values are equal, whatever the last bit of float64 says."""

    def forward(self, x):
        _, winners = functional.max_pool2d(
            x.float(), self.kernel_size, self.stride, return_indices=True
        )
        return x.flatten(2).gather(2, winners.flatten(2)).view_as(winners)


class Keras(nn.Module):
    """keras.onnx: channels last outside, padding after TensorFlow (only at the end)."""

    def __init__(self, addition):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 12, 3, 2), nn.ReLU())
        self.separable = nn.Sequential(
            nn.Conv2d(12, 12, 3, 1, 1, groups=12, bias=False), nn.Conv2d(12, 12, 1), nn.ReLU()
        )
        self.add = addition()
        self.pool = FirstMaximum(3, 2)
        self.last = nn.Sequential(nn.Conv2d(12, 16, 3), nn.ReLU())
        self.dense = nn.Sequential(nn.Linear(400, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        x = self.first(functional.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1)))
        x = self.add(self.separable(x), x)
        x = self.last(self.pool(functional.pad(x, (0, 1, 0, 1), value=-torch.inf)))
        return self.dense(x.permute(0, 2, 3, 1).flatten(1))


class Centred(nn.Module):
    """mlp-matlab.onnx: subtracts a mean image first."""

    def __init__(self):
        super().__init__()
        self.input_Mean = nn.Parameter(torch.zeros(1, 784))
        self.network = fixture_models.Perceptron(24, 10)

    def forward(self, x):
        return self.network(x - self.input_Mean)


BUILDERS = {
    "lenet": lambda _: fixture_models.LeNet(),
    "resnet8": resnet8,
    "mobilenet": mobilenet,
    "vit": lambda _: fixture_models.VisionTransformer(),
    "keras": Keras,
    "mlp-external": lambda _: fixture_models.Perceptron(24, 10),
    "mlp-function": lambda _: fixture_models.Perceptron(24, 10),
    "mlp-matlab": lambda _: Centred(),
}


def load(folder, name, images, addition=StackedAddition, dtype=torch.float64):
    """The module for `name` and its inputs, `images` in the layout of the file."""
    network = BUILDERS[name](addition).eval()
    path = folder / f"{name}.onnx"
    read_weights(network, onnx.load(path).graph)
    network.requires_grad_(False)

    reference = Reference(path)
    inputs = torch.tensor(reference.prepared(images))
    logits = reference.run(images).logits
    worst = np.abs(network(inputs).numpy() - logits).max()
    assert worst <= 1e-4 * np.abs(logits).max(), f"{name}: rebuilt logits are off by {worst}"
    return network.to(dtype), inputs.to(dtype)


def read_weights(network, graph):
    """Linear layers and batch norms by their order, all else by name: exporters rename
    what they transpose or fold."""
    tensors = {item.name: torch.tensor(numpy_helper.to_array(item)) for item in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in tensors:
            tensors[node.output[0]] = tensors[node.input[0]]

    state = {name: tensors[name] for name in network.state_dict() if name in tensors}
    linear = [name for name, module in network.named_modules() if isinstance(module, LINEAR)]
    found = list(linear_weights(graph, tensors))
    assert len(linear) == len(found), f"{len(linear)} linear modules, {len(found)} nodes"
    for name, (weight, bias) in zip(linear, found):
        state[f"{name}.weight"] = weight
        if bias is not None:
            state[f"{name}.bias"] = bias.reshape(-1)
    for name in network.state_dict():
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(0)
    network.load_state_dict(state)


def linear_weights(graph, tensors):
    """(weight, bias) in PyTorch's layout of every node with a constant weight."""
    users = {name: node for node in graph.node for name in node.input}
    for node in graph.node:
        weight, *bias = [tensors.get(name) for name in node.input[1:]] or [None]
        if weight is None:
            continue
        if node.op_type == "Conv":
            yield weight, *(bias or [None])
        elif node.op_type == "Gemm":
            transposed = any(item.name == "transB" and item.i for item in node.attribute)
            yield weight if transposed else weight.T, bias[0]
        elif node.op_type == "MatMul":
            addition = users[node.output[0]]
            yield weight.T, next(tensors[name] for name in addition.input if name in tensors)
        elif node.op_type.endswith("Dense"):
            yield weight.T, bias[0]


def path_layers(network):
    """The modules whose outputs are npcov's path layers, input to output."""
    return [module for module in network.modules() if isinstance(module, ACTIVATIONS)]


def neurons(values):
    """Sums per neuron: over height and width of maps, over the tokens of a sequence."""
    if values.ndim == 4:
        return values.sum((2, 3))
    return values.sum(1) if values.ndim == 3 else values
