#!/usr/bin/env python3
"""Times relevances by zennit, and by eager PyTorch written for the purpose.

    relevance_peer.py PEER FOLDER/NETWORK.onnx INPUTS THREADS REPEATS BATCH:MODE...

PEER is `zennit-alpha2-beta1` or `zennit-epsilon-plus` (the composites of that
name), or `torch-alpha-beta` or `torch-zplus` (below). Settings and output as
in python_peer.py. Batch norm is folded beforehand, inputs lie in 0..1.
"""

import sys
from pathlib import Path

import networks
import torch
from fixture_models import ResidualBlock
from python_peer import measure
from torch import nn
from torch.nn import functional as F

EPSILON = 1e-6


def main():
    peer, model, inputs, threads, repeats, *settings = sys.argv[1:]
    inputs, threads, repeats = int(inputs), int(threads), int(repeats)
    prepare = {
        "zennit-alpha2-beta1": lambda *a: zennit_relevance("EpsilonAlpha2Beta1", *a),
        "zennit-epsilon-plus": lambda *a: zennit_relevance("EpsilonPlus", *a),
        "torch-alpha-beta": lambda *a: torch_relevance(0.5, *a),
        "torch-zplus": lambda *a: torch_relevance(0.0, *a),
    }[peer]
    for setting in settings:
        batch, mode = setting.split(":")
        # zennit changes the modules while it works: one batch at a time.
        if mode == "outer" and peer.startswith("zennit"):
            continue
        outer, inner = (threads, 1) if mode == "outer" else (1, threads)
        torch.set_num_threads(inner)
        name = Path(model).stem
        network = networks.fold_batch_norm(networks.make(name))
        x = torch.rand(int(batch), *networks.NETWORKS[name][1])
        explain = prepare(network, x)
        for _ in range(repeats):
            print(setting, measure(explain, inputs // int(batch), outer), flush=True)


def zennit_relevance(composite, network, x):
    from zennit import composites
    from zennit.attribution import Gradient

    composite = getattr(composites, composite)()

    def explain():
        with Gradient(network, composite) as attributor:
            return attributor(x, lambda z: z * (z == z.max(1, keepdim=True).values))

    return explain


def torch_relevance(beta, network, x):
    """The alpha-beta rule by hand, for inputs that are not negative.

    P by one extra convolution with the positive weights, N from the difference
    to the forward pass, which is there anyway; two transposed convolutions.
    The weights are split beforehand.
    """
    steps = [Step(layer) for layer in network]

    def explain():
        with torch.inference_mode():
            trace = []
            y = x
            for step in steps:
                trace.append(y)
                y = step.forward(y, trace)
            r = y * (y == y.max(1, keepdim=True).values)
            for step in reversed(steps):
                r = step.relevance(r, trace, beta)
            return r

    return explain


class Step:
    """One module, forward and backward; `trace` is a stack of what the way back needs."""

    def __init__(self, module):
        self.module = module
        self.inner = None
        if isinstance(module, ResidualBlock):
            self.inner = [Step(module.conv1), Step(module.conv2), Step(module.shortcut)]
        elif isinstance(module, nn.Sequential):
            # A shortcut: a convolution and what was its batch norm.
            self.inner = Step(module[0])
        elif isinstance(module, (nn.Conv2d, nn.Linear)):
            self.positive = module.weight.detach().clamp(min=0)
            self.negative = module.weight.detach().clamp(max=0)

    def forward(self, x, trace):
        module = self.module
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            y = module(x)
            trace.append(y)
            return y
        if isinstance(module, nn.MaxPool2d):
            y, where = F.max_pool2d(x, module.kernel_size, return_indices=True)
            trace.append(where)
            return y
        if isinstance(module, ResidualBlock):
            first, second, shortcut = self.inner
            own = []
            hidden = torch.relu(first.forward(x, own))
            branch = second.forward(hidden, own)
            skip = shortcut.forward(x, own)
            trace.append((own, hidden, branch, skip))
            return torch.relu(branch + skip)
        if isinstance(module, nn.Sequential):
            return self.inner.forward(x, trace)
        return module(x)

    def relevance(self, r, trace, beta):
        module = self.module
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            y = trace.pop()
            return self.linear(trace.pop(), y, r, beta)
        if isinstance(module, nn.MaxPool2d):
            where = trace.pop()
            x = trace.pop()
            return F.max_unpool2d(r, where, module.kernel_size, output_size=x.shape[2:])
        if isinstance(module, ResidualBlock):
            return self.residual(*trace.pop(), trace.pop(), r, beta)
        x = trace.pop()
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return x * (r / (x.sum((2, 3), keepdim=True) + EPSILON))
        return r.reshape(x.shape)

    def residual(self, own, hidden, branch, skip, x, r, beta):
        first, second, shortcut = self.inner
        p = branch.clamp(min=0) + skip.clamp(min=0)
        n = branch.clamp(max=0) + skip.clamp(max=0)
        p_factor, n_factor = factors(p, n, r, beta)
        # Two summands often have one sign, and then share everything.
        p_factor = torch.where(n == 0, r / (p + EPSILON), p_factor)
        n_factor = torch.where(p == 0, r / (n - EPSILON), n_factor)

        def share(c):
            return c.clamp(min=0) * p_factor + c.clamp(max=0) * n_factor

        r_skip, r_branch = share(skip), share(branch)
        if isinstance(shortcut.module, nn.Sequential):
            r_skip = shortcut.inner.linear(x, own.pop(), r_skip, beta)
        r_hidden = second.linear(hidden, own.pop(), r_branch, beta)
        return r_skip + first.linear(x, own.pop(), r_hidden, beta)

    def linear(self, x, y, r, beta):
        module = self.module
        bias = module.bias
        if isinstance(module, nn.Linear):
            p = F.linear(x, self.positive)
            z = y if bias is None else y - bias
            if beta == 0:
                return x * ((r / (p + EPSILON)) @ self.positive)
            p_factor, n_factor = factors(p, z - p, r, beta)
            return x * (p_factor @ self.positive + n_factor @ self.negative)
        stride, padding = module.stride, module.padding
        p = F.conv2d(x, self.positive, None, stride, padding)
        z = y if bias is None else y - bias.view(1, -1, 1, 1)
        rest = [
            x.shape[a] - ((y.shape[a] - 1) * s - 2 * q + k)
            for a, s, q, k in zip((2, 3), stride, padding, module.kernel_size)
        ]

        def back(factor, weight):
            return F.conv_transpose2d(factor, weight, None, stride, padding, rest)

        if beta == 0:
            return x * back(r / (p + EPSILON), self.positive)
        p_factor, n_factor = factors(p, z - p, r, beta)
        return x * (back(p_factor, self.positive) + back(n_factor, self.negative))


def factors(p, n, r, beta):
    return (1 + beta) * r / (p + EPSILON), -beta * r / (n - EPSILON)


if __name__ == "__main__":
    main()
