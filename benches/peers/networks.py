"""The networks of the benchmark, with random weights: time does not depend on them."""

import sys
from pathlib import Path

import timm
import torch
import torchvision
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "train")]
from architectures import alexnet, sadl1, sadl2, vgg16  # noqa: E402
from fixture_models import ResidualBlock  # noqa: E402


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for width in (16, 32, 64):
        for block in range(3):
            stride = 2 if width != 16 and block == 0 else 1
            layers.append(ResidualBlock(channels, width, stride))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mobilenet():
    """Depthwise separable blocks as in the first MobileNet, at the strides used for 32x32."""
    layers = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    channels = 32
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + 5 * [(512, 1)]
    for width, stride in plan + [(1024, 2), (1024, 1)]:
        layers += [
            nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
            nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        ]  # fmt: skip
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 10))


def full(name):
    """A network for 224x224 images as torchvision has it."""
    return lambda: getattr(torchvision.models, name)(weights=None)


def vit_small():
    return timm.create_model("vit_small_patch16_224", pretrained=False)


# Name: network, image shape, inputs of a run (a multiple of every batch size).
NETWORKS = {
    "vgg16": (vgg16, (3, 32, 32), 256),
    "sadl1": (sadl1, (1, 28, 28), 1024),
    "sadl2": (sadl2, (3, 32, 32), 1024),
    "alexnet": (alexnet, (3, 32, 32), 512),
    "resnet20": (resnet20, (3, 32, 32), 1024),
    "mobilenet": (mobilenet, (3, 32, 32), 1024),
}

# The same for images of 224x224.
FULL = {
    "resnet18": (full("resnet18"), (3, 224, 224), 32),
    "resnet50": (full("resnet50"), (3, 224, 224), 32),
    "densenet121": (full("densenet121"), (3, 224, 224), 32),
    "mobilenet-v2": (full("mobilenet_v2"), (3, 224, 224), 32),
    "efficientnet-b0": (full("efficientnet_b0"), (3, 224, 224), 32),
    "convnext-t": (full("convnext_tiny"), (3, 224, 224), 32),
    "vit-s16": (vit_small, (3, 224, 224), 32),
}
NETWORKS |= FULL


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
