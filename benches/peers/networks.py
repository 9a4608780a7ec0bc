"""The networks of the benchmark, with random weights: time does not depend on them."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from fixture_models import ResidualBlock  # noqa: E402


def convolutions(plan, channels, norm):
    """3x3 convolutions with padding as in `plan`: output channels, or "M" for a pool."""
    for step in plan:
        if step == "M":
            yield nn.MaxPool2d(2)
        else:
            yield nn.Conv2d(channels, step, 3, padding=1)
            if norm:
                yield nn.BatchNorm2d(step)
            yield nn.ReLU()
            channels = step


def vgg16():
    plan = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M"] + 2 * [512, 512, 512, "M"]
    layers = convolutions(plan, 3, norm=True)
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(512, 10))


def sadl1():
    return nn.Sequential(
        nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def sadl2():
    plan = [32, 32, "M", 64, 64, "M", 128, 128, "M"]
    return nn.Sequential(
        *convolutions(plan, 3, norm=False), nn.Flatten(), nn.Dropout(),
        nn.Linear(2048, 1024), nn.ReLU(), nn.Dropout(),
        nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        *convolutions([384, 256, 256, "M"], 192, norm=False), nn.Flatten(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 10),
    )  # fmt: skip


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for width in (16, 32, 64):
        for block in range(3):
            stride = 2 if width != 16 and block == 0 else 1
            layers.append(ResidualBlock(channels, width, stride))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# Name: network, image shape, inputs of a run (a multiple of every batch size).
NETWORKS = {
    "vgg16": (vgg16, (3, 32, 32), 256),
    "sadl1": (sadl1, (1, 28, 28), 1024),
    "sadl2": (sadl2, (3, 32, 32), 1024),
    "alexnet": (alexnet, (3, 32, 32), 512),
    "resnet20": (resnet20, (3, 32, 32), 1024),
}


def make(name):
    """The network with weights from seed 0, ready for inference."""
    torch.manual_seed(0)
    network = NETWORKS[name][0]()
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            # Keeps activations away from the slow range of denormal numbers.
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            # The exporter merges equal tensors, which trained networks do not have.
            for scale in (layer.weight, layer.running_var):
                nn.init.uniform_(scale, 0.5, 1.5)
            for shift in (layer.bias, layer.running_mean):
                nn.init.normal_(shift, 0, 0.1)
    return network.eval()


def export(name, path):
    """Writes the network as ONNX with its batch norm, which every runtime may fold."""
    torch.onnx.export(
        make(name),
        (torch.zeros(1, *NETWORKS[name][1]),),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )


def fold_batch_norm(module):
    """Folds every batch norm into the convolution before it, as the runtimes do."""
    children = list(module.named_children())
    for (name, child), (next_name, after) in zip(children, children[1:]):
        if isinstance(child, nn.Conv2d) and isinstance(after, nn.BatchNorm2d):
            setattr(module, name, fuse_conv_bn_eval(child, after))
            setattr(module, next_name, nn.Identity())
    for _, child in children:
        fold_batch_norm(child)
    return module
