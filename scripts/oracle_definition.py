"""npcov's default relevance, straight from its definition in float64.

Contributions are c_ij = x_i w_ij without bias; P_j and N_j are the sums of the
positive and of the negative ones into unit j; beta is the parameter of the
rule. R_j is shared out by

    (1 + beta) c+_ij / (P_j + eps) - beta c-_ij / (N_j - eps)     P_j and N_j not 0
    c_ij / (P_j + eps / (1 + beta))                               N_j = 0
    c_ij / (N_j - eps / beta)   (nothing when beta = 0)           P_j = 0
    nothing                                                       both 0

Two ways: `dense` looks at every single contribution of a plain chain of
layers; `explained` gives the layers of any module a backward pass that shares
relevance, so that autograd adds up what arrives over several branches.
"""

from contextlib import contextmanager

import numpy as np
import torch
from oracle_models import ACTIVATIONS, Gate
from torch import nn
from torch.nn import functional
from zennit.layer import Sum

EPSILON = 1e-6
POOLS = (nn.AvgPool2d, nn.AdaptiveAvgPool2d)
PASSED_THROUGH = (*ACTIVATIONS, nn.BatchNorm2d, Gate)


def dense(layers, x, beta):
    """Relevance at the input and at every ReLU of one input of a chain of layers."""
    values = [x[None]]
    for layer in layers:
        values.append(layer(values[-1]))
    logits = values[-1].numpy().ravel()
    relevance = np.where(logits == logits.max(), logits, 0.0)

    at_relus = []
    for layer, value in zip(reversed(layers), reversed(values[:-1])):
        if isinstance(layer, nn.ReLU):
            at_relus.insert(0, relevance)
        elif isinstance(layer, nn.MaxPool2d):
            _, winners = functional.max_pool2d(value, layer.kernel_size, return_indices=True)
            size = value[0, 0].numel()
            channels = np.arange(value.shape[1]).repeat(winners[0, 0].numel())
            below = np.zeros(value.numel())
            np.add.at(below, channels * size + winners.numpy().ravel(), relevance)
            relevance = below
        elif isinstance(layer, (nn.Conv2d, nn.Linear, *POOLS)):
            relevance = dense_step(value.numpy().ravel(), matrix(layer, value), relevance, beta)
    return relevance.reshape(x.shape), at_relus


def matrix(layer, value):
    """The layer without its bias as a matrix, inputs x outputs."""
    units = torch.eye(value[0].numel(), dtype=value.dtype).reshape(-1, *value.shape[1:])
    return (layer(units) - layer(torch.zeros_like(value))).flatten(1).numpy()


def dense_step(x, weights, relevance, beta):
    result = np.zeros_like(x)
    for j in np.flatnonzero(relevance):
        c = x * weights[:, j]
        positive, negative = np.maximum(c, 0), np.minimum(c, 0)
        p, n = positive.sum(), negative.sum()
        if p != 0 and n != 0:
            share = (1 + beta) * positive / (p + EPSILON) - beta * negative / (n - EPSILON)
        elif p != 0:
            share = c / (p + EPSILON / (1 + beta))
        elif n != 0 and beta != 0:
            share = c / (n - EPSILON / beta)
        else:
            continue
        result += relevance[j] * share
    return result


@contextmanager
def explained(network, beta, epsilon=EPSILON):
    """Inside, a backward pass through `network` carries relevance; yields a list to which
    every linear layer appends what it could not pass on, per input."""
    changed, lost = [], []
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, Sum, *POOLS)):
            rule = AlphaBeta
        elif isinstance(module, PASSED_THROUGH):
            rule = Identity
        else:
            continue
        module.forward = ruled(rule, module, beta, epsilon, lost)
        changed.append(module)
    try:
        yield lost
    finally:
        for module in changed:
            del module.forward


def ruled(rule, *context):
    return lambda x: rule.apply(x, *context)


class Identity(torch.autograd.Function):
    """Relevance is copied."""

    @staticmethod
    def forward(ctx, x, module, beta, epsilon, lost):
        return type(module).forward(module, x)

    @staticmethod
    def backward(ctx, relevance):
        return relevance, None, None, None, None


class AlphaBeta(torch.autograd.Function):
    """The rule above, P and N as products with the positive and the negative weights."""

    @staticmethod
    def forward(ctx, x, module, beta, epsilon, lost):
        ctx.save_for_backward(x)
        ctx.module, ctx.beta, ctx.epsilon, ctx.lost = module, beta, epsilon, lost
        return type(module).forward(module, x)

    @staticmethod
    def backward(ctx, relevance):
        (x,) = ctx.saved_tensors
        beta, epsilon = ctx.beta, ctx.epsilon
        raised, lowered = signed_parts(ctx.module)
        plus, minus = x.clamp(min=0), x.clamp(max=0)
        with torch.enable_grad():
            plus.requires_grad_()
            minus.requires_grad_()
            p = raised(plus) + lowered(minus)
            n = lowered(plus) + raised(minus)
        both = (p != 0) & (n != 0)
        nothing = torch.zeros_like(p)
        to_p = torch.where(both, (1 + beta) / (p + epsilon), 1 / (p + epsilon / (1 + beta)))
        to_n = nothing
        if beta != 0:
            to_n = torch.where(both, -beta / (n - epsilon), 1 / (n - epsilon / beta))
        dead = (p == 0) & ((n == 0) | (beta == 0))
        ctx.lost.append(torch.where(dead, relevance, nothing).detach().flatten(1).sum(1))
        to_p = torch.where(p != 0, to_p * relevance, nothing).detach()
        to_n = torch.where(n != 0, to_n * relevance, nothing).detach()
        at_plus, at_minus = torch.autograd.grad([p, n], [plus, minus], [to_p, to_n])
        return plus.detach() * at_plus + minus.detach() * at_minus, None, None, None, None


def signed_parts(module):
    """The module as two linear functions, of its positive and of its negative weights."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        positive, negative = module.weight.clamp(min=0), module.weight.clamp(max=0)
        if isinstance(module, nn.Linear):
            apply = functional.linear
        else:
            shape = (module.stride, module.padding, module.dilation, module.groups)

            def apply(x, weight):
                return functional.conv2d(x, weight, None, *shape)

        return lambda x: apply(x, positive), lambda x: apply(x, negative)
    whole = type(module).forward
    return lambda x: whole(module, x), lambda x: 0 * whole(module, x)
