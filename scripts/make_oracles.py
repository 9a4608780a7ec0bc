#!/usr/bin/env python3
"""Relevances and gradients of the fixture models by other people's programs.

    scripts/make_oracles.py [--fixtures fixtures]

Writes fixtures/oracles/: `cases.json` says for each file which program made it,
and the options that make npcov compute the same. Everything is computed in
float64 and stored in float32; `float32_error` is how far the same program in
float32 is from that, the largest difference over the largest value, worst array.
Needs requirements-fixtures.txt; reads the committed models, trains nothing.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import captum.attr
import numpy as np
import oracle_definition as definition
import torch
from captum.attr._utils.custom_modules import Addition_Module
from captum.attr._utils.lrp_rules import Alpha1_Beta0_Rule, EpsilonRule
from oracle_models import Gate, load, neurons, path_layers
from torch import nn
from torch.nn import functional
from zennit import composites, rules
from zennit.canonizers import SequentialMergeBatchNorm
from zennit.layer import Sum
from zennit.types import Linear

IMAGES = 4
ZENNIT = f"zennit {version('zennit')}"
CAPTUM = f"captum {version('captum')}"
TORCH = f"torch {version('torch')}"
DEFINITION = "definition in float64 by scripts/make_oracles.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    folder = parser.parse_args().fixtures
    output = folder / "oracles"
    output.mkdir(exist_ok=True)
    for old in output.glob("*.npz"):
        old.unlink()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = np.load(folder / "fashion-1000.npz")
    images = data["x"][:IMAGES].astype(np.float32) / 255
    labels = torch.tensor(data["y"][:IMAGES].astype(np.int64))

    described = []
    for case in cases():
        arrays, single = (
            case.compute(partial(load, folder, case.model, images, dtype=dtype), labels)
            for dtype in (torch.float64, torch.float32)
        )
        check_conservation(case, arrays)
        np.savez_compressed(output / f"{case.name}.npz", **stored(arrays))
        described.append(case.description(float32_error(arrays, single)))
        print(json.dumps(described[-1]), flush=True)
    lines = ",\n".join(f"  {json.dumps(item)}" for item in described)
    (output / "cases.json").write_text(f"[\n{lines}\n]\n")
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{len(described)} cases, {size} bytes")


@dataclass
class Case:
    """One file of oracles."""

    name: str
    model: str
    tool: str
    arguments: list
    compute: Callable
    """From a function that loads the model and the labels to the arrays."""
    comment: str
    kind: str = "relevance"
    conserved: float | None = None
    """How far the sum of each layer may be from the logit, where it has to equal it."""

    def description(self, float32_error):
        return {
            "name": self.name,
            "model": f"{self.model}.onnx",
            "images": IMAGES,
            "tool": self.tool,
            "kind": self.kind,
            "arguments": self.arguments,
            "file": f"{self.name}.npz",
            "float32_error": float(f"{float32_error:.1e}"),
            "comment": self.comment,
        }


def stored(arrays):
    return {name: value.astype(np.float32) if value.dtype.kind == "f" else value
            for name, value in arrays.items()}


def float32_error(exact, single):
    return max(np.abs(single[name] - exact[name]).max() / np.abs(exact[name]).max() for name in exact)


def check_conservation(case, arrays):
    if case.conserved is None:
        return
    seed = arrays["logits"].max(1)
    for name, value in arrays.items():
        if name.startswith("relevance"):
            value = value.reshape(IMAGES, -1)
            lost = np.abs(value.sum(1) - seed).max() / seed.max()
            assert lost <= case.conserved, f"{case.name}, {name}: the sum misses the logit by {lost}"


# Relevance


def predicted(logits):
    """The classes that are explained. Their logits are positive, so they are the seed."""
    best, classes = logits.max(1)
    assert (best > 0).all()
    return classes


def propagated(network, inputs):
    """Relevances from a backward pass whose steps have been replaced by relevance rules."""
    inputs = inputs.clone().requires_grad_()
    values = []

    def keep(module, arguments, value):
        value.retain_grad()
        values.append(value)

    handles = [layer.register_forward_hook(keep) for layer in path_layers(network)]
    logits = network(inputs)
    seed = functional.one_hot(predicted(logits), logits.shape[1]) * logits.detach()
    logits.backward(seed)
    for handle in handles:
        handle.remove()
    return relevances(logits, inputs.grad, [value.grad for value in values])


def relevances(logits, at_input, at_layers):
    arrays = {"logits": logits, "relevance.input": at_input}
    arrays |= {f"relevance.{i}": neurons(value) for i, value in enumerate(at_layers)}
    return {name: value.detach().numpy() for name, value in arrays.items()}


def by_zennit(make_composite):
    def compute(load, labels):
        network, inputs = load()
        with make_composite().context(network) as modified:
            return propagated(modified, inputs)

    return compute


def everywhere(rule, first=None, stabilizer=1e-6, **options):
    """One rule for all convolutions and dense layers, zennit's usual ones for the rest."""
    layers = [(Gate, rules.Pass()), *composites.layer_map_base(stabilizer), (Linear, rule)]
    if first is None:
        return composites.LayerMapComposite(layers, **options)
    return composites.SpecialFirstLayerMapComposite(layers, [(Linear, first)], **options)


NORM = "zennit explains average pools and sums by Norm, an epsilon rule without bias"
ONE_SIGN = "units whose contributions have one sign get no special treatment in zennit"
IGNORE, ABSORB = ["--bias", "ignore"], ["--bias", "absorb"]
FOLD = ["--batch-norm", "fold"]
FOLDED = "batch norm merged by zennit's SequentialMergeBatchNorm"


def norm(*operators):
    """npcov's options for what zennit explains by Norm."""
    return [part for name in operators for part in ("--rule", f"{name}=epsilon:1e-6")]


def zennit_lenet():
    pool = norm("AveragePool")

    def case(name, options, make, comment=NORM, model="lenet", **more):
        options = [*options, *pool]
        name = f"{model}-zennit-{name}"
        return Case(name, "lenet", ZENNIT, options, by_zennit(make), comment, **more)

    for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):

        def single(name, rule, make, comment=NORM, **more):
            return case(
                f"{name}-{bias[1]}", ["--rule", rule, *bias],
                lambda: everywhere(make(zero_params=zero)), comment, **more,
            )  # fmt: skip

        for beta in (1.0, 0.5):
            rule = f"alpha-beta:{beta:g}"
            make = partial(rules.AlphaBeta, 1 + beta, beta)
            yield single(f"alpha-beta-{beta:g}", f"{rule},rare=off", make, f"{NORM}; {ONE_SIGN}")
        yield single("zplus", "zplus", rules.ZPlus)
        for epsilon in ("1e-6", "0.1"):
            make = partial(rules.Epsilon, float(epsilon))
            yield single(f"epsilon-{epsilon}", f"epsilon:{epsilon}", make)
        if zero is None:
            yield single("gamma-0.25", "gamma:0.25", partial(rules.Gamma, 0.25))

    plus = ["--rule", "Conv=zplus", "--rule", "Gemm=epsilon:1e-6", *ABSORB]
    alpha = ["--rule", "Conv=alpha-beta:1,rare=off", "--rule", "Gemm=epsilon:1e-6", *ABSORB]
    gamma = ["--rule", "Conv=gamma:0.25", "--rule", "Gemm=epsilon:1e-6", *ABSORB]
    flat, box = ["--rule", "first=flat"], ["--rule", "first=zbox:0,1"]
    yield case("epsilon-plus", plus, composites.EpsilonPlus, f"EpsilonPlus; {NORM}")
    yield case(
        "epsilon-alpha2-beta1", alpha, composites.EpsilonAlpha2Beta1,
        f"EpsilonAlpha2Beta1; {NORM}; {ONE_SIGN}",
    )  # fmt: skip
    yield case(
        "epsilon-plus-flat", [*plus, *flat], composites.EpsilonPlusFlat, f"EpsilonPlusFlat; {NORM}"
    )
    yield case(
        "epsilon-alpha2-beta1-flat", [*alpha, *flat], composites.EpsilonAlpha2Beta1Flat,
        f"EpsilonAlpha2Beta1Flat; {NORM}; {ONE_SIGN}",
    )  # fmt: skip
    yield case(
        "epsilon-gamma-box", [*gamma, *box],
        lambda: composites.EpsilonGammaBox(low=0.0, high=1.0), f"EpsilonGammaBox; {NORM}",
    )  # fmt: skip
    for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):
        yield case(
            f"epsilon-box-{bias[1]}", ["--rule", "epsilon:1e-6", *box, *bias],
            lambda: everywhere(
                rules.Epsilon(zero_params=zero), rules.ZBox(0.0, 1.0, zero_params=zero)
            ),
            f"{NORM}; the bias cancels in the z-box rule, so `--bias` concerns the other layers",
        )  # fmt: skip


def zennit_resnet8():
    fold = [SequentialMergeBatchNorm()]
    near_zero = (
        "a sum of two branches can be near 0, where an epsilon of 1e-6 leaves the rounding of "
        "float32 in the result"
    )

    def case(name, options, make, comment):
        name = f"resnet8-zennit-{name}"
        return Case(name, "resnet8", ZENNIT, options, by_zennit(make), f"{comment}; {NORM}")

    composed = {
        "epsilon-plus": ("zplus", composites.EpsilonPlus, "EpsilonPlus"),
        "epsilon-alpha2-beta1": (
            "alpha-beta:1,rare=off", composites.EpsilonAlpha2Beta1,
            f"EpsilonAlpha2Beta1; {ONE_SIGN}",
        ),
    }  # fmt: skip
    for name, (rule, composite, comment) in composed.items():
        options = ["--rule", f"Conv={rule}", "--rule", "Gemm=epsilon:1e-6", *ABSORB, *FOLD]
        yield case(
            name, [*options, *norm("ReduceMean", "Add")],
            lambda: composite(canonizers=fold), f"{comment}; {FOLDED}; {near_zero}",
        )  # fmt: skip
        yield case(
            f"{name}-add-0.1", [*options, *norm("ReduceMean"), "--rule", "Add=epsilon:0.1"],
            lambda: composite(layer_map=[(Sum, rules.Norm(0.1))], canonizers=fold),
            f"{comment}; {FOLDED}; Norm(0.1) for the sums",
        )  # fmt: skip
    for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):
        yield case(
            f"epsilon-0.1-{bias[1]}", ["--rule", "epsilon:0.1", *bias, *FOLD],
            lambda: everywhere(
                rules.Epsilon(0.1, zero_params=zero), stabilizer=0.1, canonizers=fold
            ),
            f"{FOLDED}; the bias of convolutions is batch norm's; Norm(0.1) for the rest",
        )  # fmt: skip
    yield case(
        "epsilon-1e-6-absorb", ["--rule", "epsilon:1e-6", *ABSORB, *FOLD],
        lambda: everywhere(rules.Epsilon(), canonizers=fold), f"{FOLDED}; {near_zero}",
    )  # fmt: skip
    yield case(
        "alpha-beta-0.5-identity",
        [
            "--rule", "alpha-beta:0.5,rare=off", *IGNORE, "--batch-norm", "identity",
            "--rule", "ReduceMean=epsilon:0.1", "--rule", "Add=epsilon:0.1",
        ],
        lambda: everywhere(rules.AlphaBeta(1.5, 0.5, zero_params="bias"), stabilizer=0.1),
        f"batch norm passed through, convolutions with their own weights; {ONE_SIGN}; Norm(0.1)",
    )  # fmt: skip


def zennit_others():
    for model, pools in (("mobilenet", norm("ReduceMean", "Add")), ("keras", norm("Add"))):
        dense = "Gemm" if model == "mobilenet" else "MatMul"
        last = ["--rule", f"{dense}=epsilon:1e-6"]
        comment = {
            "mobilenet": "squeeze-excitation, HardSwish and SiLU: zennit's Pass, so all relevance "
            "goes to x and none to the gate; batch norm was folded by the exporter",
            "keras": "the bias of the dense layers is an Add of a constant in the ONNX file",
        }[model]
        for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):
            yield Case(
                f"{model}-zennit-epsilon-plus-{bias[1]}", model, ZENNIT,
                ["--rule", "Conv=zplus", *last, *pools, *bias],
                by_zennit(
                    lambda: composites.EpsilonPlus(
                        layer_map=[(Gate, rules.Pass())], zero_params=zero
                    )
                ),
                f"EpsilonPlus; {comment}; {NORM}",
            )  # fmt: skip
        yield Case(
            f"{model}-zennit-alpha-beta-1-ignore", model, ZENNIT,
            ["--rule", "alpha-beta:1,rare=off", *pools, *IGNORE],
            by_zennit(lambda: everywhere(rules.AlphaBeta(zero_params="bias"))),
            f"{comment}; {NORM}; {ONE_SIGN}",
        )  # fmt: skip
    yield Case(
        "mlp-matlab-zennit-alpha-beta-1-ignore", "mlp-matlab", ZENNIT,
        ["--rule", "alpha-beta:1,rare=off", *IGNORE],
        by_zennit(lambda: everywhere(rules.AlphaBeta(zero_params="bias"))),
        f"inputs of both signs, as the mean image is subtracted; {ONE_SIGN}",
    )  # fmt: skip


def cases():
    yield from zennit_lenet()
    yield from zennit_resnet8()
    yield from zennit_others()


if __name__ == "__main__":
    main()
