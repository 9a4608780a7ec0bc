"""The PyTorch networks behind the fixtures, small relatives of what people deploy.

All take (batch, 1, 28, 28) with pixels/255 and return ten logits.
"""

import torch
from torch import nn
from torch.nn import functional


class LeNet(nn.Sequential):
    """Convolutions, pools, dense layers: the plain case."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 12, 5),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(300, 64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 10),
        )


class LeNetBatchOne(nn.Module):
    """A trained LeNet written for exactly one image.

    `style` is how the author came to lose the batch: "flatten" reshapes to
    [1, -1], "squeeze" drops the axis, works on vectors and applies the softmax
    to axis 0.
    """

    def __init__(self, lenet, style):
        super().__init__()
        layers = list(lenet)
        self.features = nn.Sequential(*layers[:6])
        self.classifier = nn.Sequential(*layers[7:])
        self.style = style

    def forward(self, x):
        x = self.features(x)
        if self.style == "flatten":
            return self.classifier(x.view(1, -1))
        x = self.classifier(x.squeeze(0).view(-1))
        return torch.softmax(x, 0).unsqueeze(0)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a skip; a strided 1x1 shortcut when shapes change."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet8(nn.Sequential):
    """Batch norm, skips, strided shortcuts, global average pool."""

    def __init__(self, width=12):
        super().__init__(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            ResidualBlock(width, width, 1),
            ResidualBlock(width, 2 * width, 2),
            ResidualBlock(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, 10),
        )


class SqueezeExcitation(nn.Module):
    """Scales every channel by a gate computed from all channel means."""

    def __init__(self, channels, gate):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)
        self.gate = gate

    def forward(self, x):
        s = functional.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.expand(torch.relu(self.reduce(s))))


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise, squeeze-excitation, project 1x1, skip where it fits."""

    def __init__(self, inputs, hidden, outputs, kernel, stride, activation, gate):
        super().__init__()
        self.skip = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            activation,
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation,
            SqueezeExcitation(hidden, gate),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        y = self.body(x)
        return x + y if self.skip else y


class MobileNet(nn.Sequential):
    """Depthwise separable blocks in the manner of MobileNetV3 (HardSwish, HardSigmoid
    gates) and of EfficientNet (SiLU, Sigmoid gates)."""

    def __init__(self):
        hard = (nn.Hardswish(), nn.Hardsigmoid())
        soft = (nn.SiLU(), nn.Sigmoid())
        super().__init__(
            nn.Conv2d(1, 12, 3, 2, 1, bias=False),
            nn.BatchNorm2d(12),
            nn.Hardswish(),
            InvertedResidual(12, 36, 16, 3, 1, *hard),
            InvertedResidual(16, 48, 16, 3, 1, *hard),
            InvertedResidual(16, 64, 24, 5, 2, *soft),
            InvertedResidual(24, 72, 24, 5, 1, *soft),
            nn.Conv2d(24, 96, 1, bias=False),
            nn.BatchNorm2d(96),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(96, 10),
        )


class AttentionBlock(nn.Module):
    """A pre-norm transformer block with four heads."""

    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, 4, width // 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.project(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patch embedding, class token, position embedding, two blocks.

    With `expand` off the class token is concatenated as the [1, 1, width] it
    is, which fixes the batch at one.
    """

    def __init__(self, width=40, patch=4):
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, (28 // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(AttentionBlock(width), AttentionBlock(width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)
        self.expand = True

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1) if self.expand else self.token
        x = self.blocks(torch.cat([token, x], 1) + self.position)
        return self.head(self.norm(x)[:, 0])


class Perceptron(nn.Sequential):
    """One hidden layer on flat pixels; `outputs` is 1 for the binary classifier."""

    def __init__(self, hidden, outputs):
        super().__init__(
            nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )


class Rows(nn.Module):
    """The rows of an image as a sequence; the last states of all directions decide."""

    def __init__(self, kind, hidden, both=False):
        super().__init__()
        self.recurrent = kind(28, hidden, batch_first=True, bidirectional=both)
        self.head = nn.Linear(hidden * (2 if both else 1), 10)

    def forward(self, x):
        _, state = self.recurrent(x.flatten(1, 2))
        state = state[0] if isinstance(state, tuple) else state
        return self.head(state.transpose(0, 1).flatten(1))


def train(network, images, labels, epochs, rate=4e-3):
    """Adam with a one-cycle schedule; a single logit is trained as a yes/no answer."""
    batch = 128
    steps = epochs * (len(images) // batch)
    optimiser = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps)
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            output, target = network(images[chosen]), labels[chosen]
            if output.shape[1] == 1:
                target = target.to(output.dtype)
                loss = functional.binary_cross_entropy_with_logits(output[:, 0], target)
            else:
                loss = functional.cross_entropy(output, target)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return network.eval()
