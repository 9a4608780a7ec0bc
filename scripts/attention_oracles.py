#!/usr/bin/env python3
"""Writes fixtures/attention: small transformers, and their relevances by LXT.

    scripts/attention_oracles.py

Each model NAME.onnx has random weights. NAME.npz holds its inputs and what LXT
(`lxt.efficient`, the implementation of AttnLRP by its authors) says of them, in
float64: `logits`, `relevance.input` (for tokens: summed over their features),
and `relevance.0`, ... of the hidden features of each MLP, summed over tokens.

LXT has a BERT of its own. For torchvision's vision transformer it has the
patches of GELU and LayerNorm, but only CP-LRP in attention: here its wrapper of
attention functions, which makes AttnLRP of any, is put around the function that
torch.nn.MultiheadAttention calls.

Needs requirements-attention.txt.
"""

import os
from pathlib import Path

os.environ["USE_TF"] = "0"

import numpy as np
import torch
from lxt.efficient.models import bert as lxt_bert
from lxt.efficient.patches import layer_norm_forward, non_linear_forward, wrap_attention_forward
from torch.nn import functional
from torchvision.models import VisionTransformer
from transformers import BertConfig

FOLDER = Path(__file__).parent.parent / "fixtures" / "attention"
INPUTS = 16
TOKENS = 12
WORDS = 60


def main():
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(17)
    vit()
    bert("bert", masked=False)
    bert("bert-mask", masked=True)


def trained(model):
    """Random weights as large as trained ones: with PyTorch's own all logits are nearly equal."""
    for name, parameter in model.named_parameters():
        spread = 0.1 if parameter.dim() == 1 else 1.5 / parameter[0].numel() ** 0.5
        parameter.data = torch.randn_like(parameter) * spread + float("orm" in name and "weight" in name)
    return model.eval()


def export(model, inputs, name, names):
    torch.onnx.export(
        model,
        inputs,
        FOLDER / f"{name}.onnx",
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch"} for name in names},
        opset_version=17,
        dynamo=False,
    )


def keep(modules):
    """The outputs of modules, with their gradients."""
    kept = []

    def hook(_module, _inputs, output):
        output.retain_grad()
        kept.append(output)

    for module in modules:
        module.register_forward_hook(hook)
    return kept


def explained(name, arrays, forward, given, hidden):
    """Writes inputs and relevances; `hidden` gets the hidden features while `forward` runs."""
    hidden.clear()
    logits = forward()
    logits.max(dim=1).values.sum().backward()
    arrays["logits"] = logits.detach().numpy()
    for i, value in enumerate(hidden):
        arrays[f"relevance.{i}"] = (value * value.grad).sum(1).detach().numpy()
    arrays["relevance.input"] = (given * given.grad).detach().numpy()
    if name.startswith("bert"):
        arrays["relevance.input"] = arrays["relevance.input"].sum(-1)
    floats = {key: a.astype(np.float32) if a.dtype == np.float64 else a for key, a in arrays.items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **floats)
    print(name, {key: a.shape for key, a in floats.items()})


def vit():
    model = trained(
        VisionTransformer(
            image_size=12, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5
        )
    )
    x = torch.randn(INPUTS, 3, 12, 12)
    export(model, (x[:1],), "vit", ["image"])
    attention = functional.scaled_dot_product_attention
    wrapped = wrap_attention_forward(lambda _module, *given, **more: attention(*given, **more))
    functional.scaled_dot_product_attention = lambda *given, **more: wrapped(None, *given, **more)
    for module in model.modules():
        if isinstance(module, torch.nn.GELU):
            module.original_forward = module.forward
            module.forward = non_linear_forward.__get__(module)
        if isinstance(module, torch.nn.LayerNorm):
            module.forward = layer_norm_forward.__get__(module)
    hidden = keep(m for m in model.modules() if isinstance(m, torch.nn.GELU))
    model.double()
    given = x.double().requires_grad_()
    explained("vit", {"x": x.numpy()}, lambda: model(given), given, hidden)
    functional.scaled_dot_product_attention = attention


def bert(name, masked):
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=TOKENS,
        num_labels=3,
        attn_implementation="eager",
    )
    from transformers.models.bert.modeling_bert import BertForSequenceClassification

    model = trained(BertForSequenceClassification(config))
    ids = torch.randint(1, WORDS, (INPUTS, TOKENS))
    mask = torch.ones_like(ids)
    arrays = {"x": ids.numpy()}
    names = ["input_ids"]
    if masked:
        for row, length in enumerate(torch.randint(4, TOKENS + 1, (INPUTS,))):
            mask[row, length:] = 0
            ids[row, length:] = 0
        arrays = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        names = ["input_ids", "attention_mask"]

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *given):
            return self.model(**dict(zip(names, given))).logits

    export(Logits().eval(), (ids[:1], mask[:1])[: len(names)], name, names)
    theirs = lxt_bert.BertForSequenceClassification(config)
    theirs.load_state_dict(model.state_dict())
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.forward = layer_norm_forward.__get__(module)
    theirs.eval().double()
    hidden = keep(m for m in theirs.modules() if isinstance(m, lxt_bert.BertIntermediate))
    given = theirs.get_input_embeddings()(ids).detach().requires_grad_()
    explained(
        name,
        arrays,
        lambda: theirs(inputs_embeds=given, attention_mask=mask).logits,
        given,
        hidden,
    )


if __name__ == "__main__":
    main()
