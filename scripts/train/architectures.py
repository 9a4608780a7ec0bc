"""The networks of the paper on neuron path coverage (Xie et al. 2022), as PyTorch modules, and
small ones for questions that the paper does not ask.

Images are pixels from 0 to 1 without further normalisation; outputs are logits. All
convolutions and dense layers have biases.
"""

from torch import nn


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


def sadl1():
    """For MNIST, 1x28x28."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def sadl2():
    """For CIFAR-10, 3x32x32."""
    plan = [32, 32, "M", 64, 64, "M", 128, 128, "M"]
    return nn.Sequential(
        *convolutions(plan, 3, norm=False), nn.Flatten(), nn.Dropout(),
        nn.Linear(2048, 1024), nn.ReLU(), nn.Dropout(),
        nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def vgg16():
    """For CIFAR-10, 3x32x32: 13 convolutions with batch norm, one dense layer."""
    plan = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M"] + 2 * [512, 512, 512, "M"]
    layers = convolutions(plan, 3, norm=True)
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(512, 10))


def alexnet():
    """For SVHN, 3x32x32."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        *convolutions([384, 256, 256, "M"], 192, norm=False), nn.Flatten(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 10),
    )  # fmt: skip


def small(classes):
    """For MNIST and Fashion-MNIST, 1x28x28."""
    plan = [16, "M", 32, "M", 64, "M"]
    return nn.Sequential(
        *convolutions(plan, 1, norm=False), nn.Flatten(),
        nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, classes),
    )  # fmt: skip


def pooled(classes):
    """For things at any place, 1x40x40: nothing after the convolutions knows where."""
    plan = [16, "M", 32, "M", 48, "M", 64]
    return nn.Sequential(
        *convolutions(plan, 1, norm=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes),
    )  # fmt: skip
