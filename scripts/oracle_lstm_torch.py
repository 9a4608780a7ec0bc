#!/usr/bin/env python3
"""An LSTM with the rules of Arras et al. in PyTorch, against the oracles that the tests read.

    scripts/oracle_lstm_torch.py [--fixtures fixtures]

`oracle_recurrent.py` writes `oracles/lstm-arras-*.npz` from formulas, number by number. Here the same network is made
of PyTorch's operations, whose backward passes hand on relevance instead of gradients: all to the signal in a product
with a gate, by the epsilon rule in sums. The forward pass is checked against torch.nn.LSTM. Everything in float64;
exit 1 when anything is farther than 1e-6 of the largest number. Needs requirements-fixtures.txt.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from oracle_recurrent import IMAGES, Weights
from torch.autograd import Function

BOUND = 1e-6


def stabilised(z, epsilon):
    return z + epsilon * torch.where(z >= 0, 1.0, -1.0)


class Linear(Function):
    """`x w' + b`, or without the bias in the denominator."""

    @staticmethod
    def forward(ctx, x, w, b, epsilon, absorb):
        z = x @ w.T
        ctx.save_for_backward(x, w, z + b if absorb else z)
        ctx.epsilon = epsilon
        return z + b

    @staticmethod
    def backward(ctx, relevance):
        x, w, z = ctx.saved_tensors
        return x * ((relevance / stabilised(z, ctx.epsilon)) @ w), None, None, None, None


class Sum(Function):
    @staticmethod
    def forward(ctx, a, b, epsilon):
        ctx.save_for_backward(a, b)
        ctx.epsilon = epsilon
        return a + b

    @staticmethod
    def backward(ctx, relevance):
        a, b = ctx.saved_tensors
        share = relevance / stabilised(a + b, ctx.epsilon)
        return a * share, b * share, None


class Gated(Function):
    @staticmethod
    def forward(_ctx, signal, gate):
        return signal * gate

    @staticmethod
    def backward(_ctx, relevance):
        return relevance, None


class Tanh(Function):
    @staticmethod
    def forward(_ctx, x):
        return x.tanh()

    @staticmethod
    def backward(_ctx, relevance):
        return relevance


def explained(weights, x, epsilon, absorb):
    """Logits, and relevances of the input and of the units' memories over all steps."""
    numbers = (weights.w[0], weights.r[0], *np.split(weights.b[0], 2), weights.head, weights.head_bias)
    w, r, wb, rb, head, head_bias = (torch.tensor(n, dtype=torch.float64) for n in numbers)
    hidden = r.shape[1]
    # ONNX has the gates in the order i, o, f, c.
    parts = lambda matrix: dict(zip("iofc", matrix.split(hidden)))
    w, r, b = parts(w), parts(r), parts(wb + rb)
    x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    h = c = torch.zeros(len(x), hidden, dtype=torch.float64)
    memories = []
    for step in range(x.shape[1]):
        given = torch.cat([x[:, step], h], 1)
        gate = lambda name: torch.sigmoid(given @ torch.cat([w[name], r[name]], 1).T + b[name]).detach()
        signal = Linear.apply(given, torch.cat([w["c"], r["c"]], 1), b["c"], epsilon, absorb)
        c = Sum.apply(Gated.apply(c, gate("f")), Gated.apply(Tanh.apply(signal), gate("i")), epsilon)
        c.retain_grad()
        memories.append(c)
        h = Gated.apply(Tanh.apply(c), gate("o"))
    logits = Linear.apply(h, head, head_bias, epsilon, absorb)
    plain = torch.nn.LSTM(x.shape[2], hidden, batch_first=True).double()
    order = lambda matrix: torch.cat([matrix[name] for name in "ifco"])
    with torch.no_grad():
        for name, value in {"weight_ih_l0": order(w), "weight_hh_l0": order(r), "bias_ih_l0": order(b)}.items():
            getattr(plain, name).copy_(value)
        plain.bias_hh_l0.zero_()
        assert torch.allclose(plain(x)[1][0][0] @ head.T + head_bias, logits, atol=1e-9)
    chosen = torch.nn.functional.one_hot(logits.argmax(1), logits.shape[1])
    logits.backward(logits.detach() * chosen)
    return {
        "logits": logits,
        "relevance.input": x.grad[:, None],
        "relevance.0": sum(memory.grad for memory in memories),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    folder = parser.parse_args().fixtures
    images = np.load(folder / "fashion-1000.npz")["x"][:IMAGES].astype(np.float32) / 255
    weights = Weights.read(folder / "lstm.onnx")
    worst = 0.0
    for case in json.loads((folder / "oracles/cases.json").read_text()):
        if not case["name"].startswith("lstm-arras-"):
            continue
        epsilon = float(case["arguments"][1].split(":")[1])
        found = explained(weights, images, epsilon, case["name"].endswith("absorb"))
        expected = np.load(folder / "oracles" / case["file"])
        for name in expected.files:
            ours = found[name].detach().numpy()
            apart = np.abs(ours - expected[name]).max() / np.abs(expected[name]).max()
            print(f"{case['name']:20} {name:16} {apart:.1e}")
            worst = max(worst, apart)
    return 0 if 0 < worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
