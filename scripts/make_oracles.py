#!/usr/bin/env python3
"""Relevances and gradients of the fixture models by other people's programs.

    scripts/make_oracles.py [--fixtures fixtures]

Writes fixtures/oracles/: `cases.json` says for each file which program made it,
and the options that make npcov compute the same. Everything is computed in
float64; `float32_error` is how far the same program in float32 is from that,
the largest difference over the largest value, of the worst array.
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
import oracle_recurrent
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
        if case.kind == "relevance":
            check_conservation(case, arrays)
        np.savez_compressed(output / f"{case.name}.npz", **stored(arrays))
        described.append(case.description(float32_error(arrays, single)))
        print(json.dumps(described[-1]), flush=True)
    lines = ",\n".join(f"  {json.dumps(item)}" for item in described)
    (output / "cases.json").write_text(f"[\n{lines}\n]\n")
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{len(described)} cases, {size} bytes")
    oracle_recurrent.add(folder)


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
    conserved: bool = False
    """Whether the sum of each path layer has to equal the logit."""

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
    """float32. Maps are rounded to 17 significant bits (8e-6), which compress to two thirds."""

    def rounded(value):
        mantissa, exponent = np.frexp(value)
        return np.ldexp(np.round(mantissa * 2**17), exponent - 17)

    arrays = {k: rounded(v) if k.endswith(".input") else v for k, v in arrays.items()}
    return {k: v if k == "label" else v.astype(np.float32) for k, v in arrays.items()}


def float32_error(exact, single):
    return max(
        np.abs(single[name] - value).max() / np.abs(value).max() for name, value in exact.items()
    )


def check_conservation(case, arrays):
    """Each path layer sums to the logit. The input need not: an output whose window of the
    image is blank has no input to give its relevance to."""
    seed = arrays["logits"].max(1)
    for name in arrays:
        if case.conserved and name not in ("logits", "relevance.input"):
            missed = np.abs(arrays[name].sum(1) - seed) / seed
            assert (missed <= 1e-3).all(), f"{case.name}, {name}: the sum misses by {missed}"


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
FOLDED = "batch norm merged by zennit's SequentialMergeBatchNorm, its own epsilon then set to 0"


def norm(*operators):
    """npcov's options for what zennit explains by Norm."""
    return [part for name in operators for part in ("--rule", f"{name}=epsilon:1e-6")]


def zennit_lenet():
    pool = norm("AveragePool")

    def case(name, options, make, comment=NORM, conserved=False):
        name, options = f"lenet-zennit-{name}", [*options, *pool]
        compute = by_zennit(make)
        return Case(name, "lenet", ZENNIT, options, compute, comment, conserved=conserved)

    for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):

        def single(name, rule, make, comment=NORM, bias=bias, zero=zero):
            return case(
                f"{name}-{bias[1]}", ["--rule", rule, *bias],
                lambda: everywhere(make(zero_params=zero)), comment,
                conserved=bias is IGNORE and rule != "epsilon:0.1",
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
    yield case(
        "epsilon-box", ["--rule", "epsilon:1e-6", *box, *ABSORB],
        lambda: everywhere(rules.Epsilon(), rules.ZBox(0.0, 1.0)),
        f"{NORM}; the bias cancels in the z-box rule",
    )  # fmt: skip
    yield Case(
        "lenet-zennit-alpha-beta-1-pool", "lenet", ZENNIT,
        ["--rule", "alpha-beta:1,rare=off", *IGNORE], with_pool_as_convolution,
        f"the average pool as a convolution with weights of 1/4, under the same rule; {ONE_SIGN}: "
        "the pool, which has positive contributions only, doubles all relevance",
    )  # fmt: skip


def with_pool_as_convolution(load, labels):
    network, inputs = load()
    pool = nn.Conv2d(12, 12, 2, 2, groups=12, bias=False)
    nn.init.constant_(pool.weight, 0.25)
    network[5] = pool.to(inputs.dtype)
    with everywhere(rules.AlphaBeta(zero_params="bias")).context(network) as modified:
        return propagated(modified, inputs)


class MergeBatchNorm(SequentialMergeBatchNorm):
    """zennit leaves an emptied batch norm its epsilon, so that it still divides by
    sqrt(1 + 1e-5) and the logits change."""

    def register(self, linears, batch_norm):
        super().register(linears, batch_norm)
        self.epsilon, batch_norm.eps = batch_norm.eps, 0.0

    def remove(self):
        super().remove()
        self.batch_norm.eps = self.epsilon


def zennit_resnet8():
    fold = [MergeBatchNorm()]
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
            partial(composite, canonizers=fold), f"{comment}; {FOLDED}; {near_zero}",
        )  # fmt: skip
        yield case(
            f"{name}-add-0.1", [*options, *norm("ReduceMean"), "--rule", "Add=epsilon:0.1"],
            partial(composite, layer_map=[(Sum, rules.Norm(0.1))], canonizers=fold),
            f"{comment}; {FOLDED}; Norm(0.1) for the sums",
        )  # fmt: skip
    for bias, zero in ((IGNORE, "bias"), (ABSORB, None)):
        yield case(
            f"epsilon-0.1-{bias[1]}", ["--rule", "epsilon:0.1", *bias, *FOLD],
            lambda zero=zero: everywhere(
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
                    partial(
                        composites.EpsilonPlus,
                        layer_map=[(Gate, rules.Pass())], zero_params=zero,
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
        f"inputs of both signs, as the mean image is subtracted; {ONE_SIGN}", conserved=True,
    )  # fmt: skip


# captum

CONSUMERS = {
    "lenet": ["2", "5", "10"],
    "resnet8": ["3.conv1", "3.conv2", "4.conv1", "4.conv2", "5.conv1", "5.conv2", "6"],
}
"""The modules whose input is a path layer: captum has no relevance at activations."""


def by_captum(model, rule_of):
    def compute(load, labels):
        network, inputs = load(addition=Addition_Module)
        inputs.requires_grad_()
        logits = network(inputs)
        target = predicted(logits)
        # captum takes its rules away after each use.
        set_rules(network, rule_of)
        at_input = captum.attr.LRP(network).attribute(inputs, target)
        at_layers = []
        for name in CONSUMERS[model]:
            set_rules(network, rule_of)
            layer_lrp = captum.attr.LayerLRP(network, network.get_submodule(name))
            at_layers.append(layer_lrp.attribute(inputs, target, attribute_to_layer_input=True))
        return relevances(logits, at_input, at_layers)

    return compute


def set_rules(network, rule_of):
    for module in network.modules():
        rule = rule_of(module)
        if rule is not None:
            module.rule = rule


EXACT = 1e-30
"""An epsilon that only keeps 0/0 at 0."""


def captum_epsilon(epsilon, module):
    """The epsilon rule with one epsilon a layer. captum applies it to flattening, max pools
    and batch norm too, where exact division makes it the identity, gradient routing and,
    together with the convolution before it, the rule for the folded convolution."""
    if isinstance(module, (nn.Flatten, nn.MaxPool2d)):
        return EpsilonRule(EXACT)
    if isinstance(module, nn.Conv2d) and module.bias is None:
        return EpsilonRule(EXACT)
    linear = (nn.Conv2d, nn.BatchNorm2d, nn.Linear, *definition.POOLS, Addition_Module)
    return EpsilonRule(epsilon) if isinstance(module, linear) else None


def captum_zplus(module):
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        return Alpha1_Beta0_Rule(set_bias_to_zero=True)
    return captum_epsilon(1e-6, module)


def captum_cases():
    rule = "EpsilonRule for all layers, which absorbs the bias"
    folded = "batch norm by EpsilonRule as well, which amounts to folding it"
    yield Case(
        "lenet-captum-epsilon-1e-6", "lenet", CAPTUM, ["--rule", "epsilon:1e-6", *ABSORB],
        by_captum("lenet", partial(captum_epsilon, 1e-6)), rule,
    )  # fmt: skip
    yield Case(
        "resnet8-captum-epsilon-0.1", "resnet8", CAPTUM,
        ["--rule", "epsilon:0.1", *ABSORB, *FOLD],
        by_captum("resnet8", partial(captum_epsilon, 0.1)),
        f"{rule}; Addition_Module; {folded}",
    )  # fmt: skip
    yield Case(
        "lenet-captum-zplus", "lenet", CAPTUM,
        ["--rule", "zplus:1e-9", *norm("AveragePool"), *IGNORE], by_captum("lenet", captum_zplus),
        "Alpha1_Beta0_Rule with set_bias_to_zero: z+ where no input is negative, as here",
        conserved=True,
    )  # fmt: skip


def gradient_times_input(load, labels):
    network, inputs = load()
    inputs.requires_grad_()
    logits = network(inputs)
    target = predicted(logits)
    at_input = captum.attr.InputXGradient(network).attribute(inputs, target)
    at_layers = [
        captum.attr.LayerGradientXActivation(network, layer).attribute(inputs, target)
        for layer in path_layers(network)
    ]
    return relevances(logits, at_input, at_layers)


def gradient_times_input_cases():
    for model in ("lenet", "resnet8", "mobilenet", "vit", "keras"):
        yield Case(
            f"{model}-captum-gradient-input", model, CAPTUM, ["--attribution", "gradient-input"],
            gradient_times_input,
            "InputXGradient and LayerGradientXActivation of the predicted logit",
        )  # fmt: skip


# Gradients


def cross_entropy(logits, labels, layers):
    return functional.cross_entropy(logits, labels, reduction="none")


def margin(logits, labels, layers):
    """How far the best other class is above the label's."""
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return others.max(1).values - own[:, 0]


def cross_entropy_and_divergence(logits, labels, layers):
    """Minus a tenth of how uneven each layer is: KL(U || Q) of the uniform distribution
    from the activations over their sum."""
    loss = cross_entropy(logits, labels, layers)
    for layer in layers:
        activations = layer.flatten(1)
        q = activations / activations.sum(1, keepdim=True) + 1e-20
        u = 1 / activations.shape[1]
        loss = loss - 0.1 * (u * (np.log(u) - q.log())).sum(1)
    return loss


def by_autograd(loss_of):
    def compute(load, labels):
        network, inputs = load()
        inputs.requires_grad_()
        layers = []
        for layer in path_layers(network):
            layer.register_forward_hook(lambda module, arguments, value: layers.append(value))
        loss = loss_of(network(inputs), labels, layers)
        loss.sum().backward()
        return {
            "gradient.input": inputs.grad.numpy(),
            "loss": loss.detach().numpy(),
            "label": labels.numpy(),
        }

    return compute


def gradient_cases():
    def case(model, name, options, loss_of, comment):
        name = f"{model}-torch-{name}"
        compute = by_autograd(loss_of)
        return Case(name, model, TORCH, ["--loss", *options], compute, comment, "gradient")

    for model in ("lenet", "resnet8", "mobilenet", "vit", "keras", "mlp-external"):
        comment = "of the logits for the labels of the data"
        yield case(model, "cross-entropy", ["cross-entropy"], cross_entropy, comment)
    for model in ("lenet", "resnet8", "mobilenet", "vit", "mlp-matlab"):
        comment = "the largest other logit minus the label's"
        yield case(model, "margin", ["margin"], margin, comment)
    yield case(
        "lenet", "divergence", ["cross-entropy", "--div", "-0.1"], cross_entropy_and_divergence,
        "cross entropy minus 0.1 times the sum over path layers of KL(U || Q), Q the layer's "
        "activations (every element) over their sum, plus 1e-20",
    )  # fmt: skip


# The definition


def by_definition(beta):
    def compute(load, labels):
        network, inputs = load()
        with definition.explained(network, beta):
            arrays = propagated(network, inputs)
        if inputs.dtype == torch.float64:
            check_nothing_missing(network, inputs, beta)
            if isinstance(network, nn.Sequential) and not any(map(has_parts, network)):
                compare_dense(network, inputs, beta, arrays)
        return arrays

    return compute


def has_parts(module):
    return next(module.children(), None) is not None


def check_nothing_missing(network, inputs, beta):
    """Without the epsilon, what arrives and what units without contributions keep is the
    logit."""
    with definition.explained(network, beta, epsilon=1e-15) as lost:
        arrays = propagated(network, inputs)
    arrived = arrays["relevance.input"].reshape(IMAGES, -1).sum(1)
    seed = arrays["logits"].max(1)
    missed = np.abs(arrived + sum(lost).numpy() - seed) / seed
    assert (missed <= 1e-6).all(), f"{missed} of the logit is missing"


def compare_dense(network, inputs, beta, arrays):
    """The same once more, contribution by contribution."""
    for i, x in enumerate(inputs):
        at_input, at_relus = definition.dense(list(network), x, beta)
        pairs = [(at_input, arrays["relevance.input"][i])]
        for number, value in enumerate(at_relus):
            whole = arrays[f"relevance.{number}"][i]
            pairs.append((value.reshape(len(whole), -1).sum(1), whole))
        for naive, value in pairs:
            assert np.abs(naive - value).max() <= 1e-9 * np.abs(naive).max()


def definition_cases():
    rare = "with the special treatment of units whose contributions have one sign"
    for model, options in {
        "lenet": [],
        "resnet8": ["--batch-norm", "identity"],
        "mobilenet": [],
        "keras": [],
        "mlp-function": ["--rule", "alpha-beta:0.5"],
    }.items():
        yield Case(
            f"{model}-definition", model, DEFINITION, options, by_definition(0.5),
            f"npcov's default rule, {rare}; sums and average pools are linear layers like others",
            conserved=model in ("lenet", "mlp-function"),
        )  # fmt: skip
    yield Case(
        "lenet-definition-zplus", "lenet", DEFINITION, ["--rule", "alpha-beta:0"],
        by_definition(0.0), f"alpha-beta with beta 0 {rare}",
    )  # fmt: skip


def cases():
    yield from zennit_lenet()
    yield from zennit_resnet8()
    yield from zennit_others()
    yield from captum_cases()
    yield from gradient_times_input_cases()
    yield from gradient_cases()
    yield from definition_cases()


if __name__ == "__main__":
    main()
