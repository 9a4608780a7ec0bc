#!/usr/bin/env python3
"""Makes the exports that docs/models.md is about: what other people's libraries write as ONNX.

    scripts/exports.py FOLDER [--only PART] [--again] [--plain]
    scripts/exports.py fixtures/exports --fixtures

Every model has the topology that its library gives it, seeded random weights, small inputs
and, where the library lets one choose, small widths; nothing is downloaded. Statistics of batch
normalisation are those of the inputs, and the last layer is such that all classes occur: without
that, a random network says the same of everything. Networks for images are also made to depend less on
rounding (`calmed`, `look_apart`, `decided`; docs/models.md says why); `--plain` leaves that out.

For an export NAME, FOLDER gets NAME.onnx; NAME.npz with the inputs by their names, and labels
`y`; NAME-outputs.npz with what ONNX Runtime makes of these inputs, by the names of the outputs.
`exports.json` lists them: how each was made, what its first numeric output is, how near npcov
has to come. An exporter that fails leaves its message there. `--fixtures` makes the few that are
tests, with eight inputs each.

Needs requirements-exports.txt.
"""

import argparse
import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
warnings.filterwarnings("ignore")

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

CLASSES = 4
INPUTS = 48
EXACT, HALF, INT8 = "exact", "half", "int8"
EXPORTS = []
FIXTURES = (
    "conv3d", "qdq-cnn", "qoperator-cnn", "dynamic-cnn", "dynamic-mlp", "sklearn-logistic",
    "sklearn-mlp-two", "sklearn-pipeline-long", "sklearn-encoded", "sklearn-forest", "half",
)
FIXTURE_INPUTS = 8
PLAIN = False
"""Whether networks are left as sensitive to rounding as random weights make them."""


@dataclass
class Export:
    """A way to make one model, in a folder, with inputs and labels."""

    name: str
    source: str
    make: object
    output: str = "logits"
    """What the output is: logits, probabilities, numbers (regression) or trees (refused)."""
    tolerance: str = EXACT
    linear: bool = False
    """Whether there is no hidden layer, so that there are no paths."""


def export(name, source, output="logits", tolerance=EXACT, linear=False):
    """Registers a function `make(path) -> (inputs, labels or None)`; without labels, those that
    ONNX Runtime predicts are taken."""

    def register(make):
        EXPORTS.append(Export(name, source, make, output, tolerance, linear))
        return make

    return register


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only exports whose name contains this")
    parser.add_argument("--fixtures", action="store_true", help="only those that are tests")
    parser.add_argument("--again", action="store_true", help="also those that are there")
    parser.add_argument("--plain", action="store_true", help="as sensitive to rounding as random weights are")
    options = parser.parse_args()
    global PLAIN
    PLAIN = options.plain
    options.folder.mkdir(parents=True, exist_ok=True)
    index = options.folder / "exports.json"
    made = {e["name"]: e for e in json.loads(index.read_text())} if index.exists() else {}
    for item in EXPORTS:
        done = item.name in made and not made[item.name]["failed"]
        if options.only not in item.name or (done and not options.again):
            continue
        if options.fixtures and item.name not in FIXTURES:
            continue
        start = time.time()
        failed = run(item, options.folder, FIXTURE_INPUTS if options.fixtures else INPUTS)
        made[item.name] = {
            "name": item.name,
            "source": item.source,
            "output": item.output,
            "tolerance": item.tolerance,
            "linear": item.linear,
            "failed": failed,
        }
        order = [made[e.name] for e in EXPORTS if e.name in made]
        index.write_text(json.dumps(order, indent=1) + "\n")
        print(f"{item.name:32} {failed or 'ok'} ({time.time() - start:.0f} s)", flush=True)
    return 0


def run(item, folder, count):
    """Makes an export and its files, with so many inputs; returns why not, or an empty string."""
    path = folder / f"{item.name}.onnx"
    torch.manual_seed(0)
    np.random.seed(0)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            inputs, labels = item.make(path)
        inputs = {name: x[:count] for name, x in inputs.items()}
        outputs = run_onnx(path, inputs)
        labels = predicted(outputs) if labels is None else labels[:count]
        np.savez_compressed(folder / f"{item.name}.npz", **inputs, y=labels)
        np.savez_compressed(folder / f"{item.name}-outputs.npz", **outputs)
    except Exception as error:
        if os.environ.get("EXPORTS_TRACE"):
            traceback.print_exc()
        path.unlink(missing_ok=True)
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"[:200]
    return ""


def run_onnx(path, inputs):
    """What ONNX Runtime makes of inputs, one at a time: a model may fix its batch at 1, and
    dynamic quantisation takes its scale from all that it gets at once."""
    options = onnxruntime.SessionOptions()
    # On CPUs without VNNI, sums of 8-bit products are cut off at 16 bits unless this is asked for. Then there is no
    # kernel for QGemm; files with it agree with whole numbers as they are.
    if all(node.op_type != "QGemm" for node in onnx.load(path, load_external_data=False).graph.node):
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    rows = []
    for i in range(len(next(iter(inputs.values())))):
        rows.append(session.run(names, {name: x[i : i + 1] for name, x in inputs.items()}))
    outputs = {}
    for place, name in enumerate(names):
        column = [row[place] for row in rows]
        if isinstance(column[0], list):  # ZipMap: a list of dictionaries
            column = [np.array([list(d.values()) for d in value], np.float32) for value in column]
        outputs[name] = np.concatenate(column)
    return outputs


def predicted(outputs):
    values = next(v for v in outputs.values() if v.ndim == 2 and v.dtype.kind == "f")
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.int64)
    return values.argmax(1).astype(np.int64)


# Inputs. Neighbouring values are alike and inputs differ in contrast and brightness: white noise
# averages out before the last layers, and all inputs look alike there.


def smooth(*shape, count=INPUTS, patch=8, seed=1):
    """`count` signals of `shape` (channels first) out of patches."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, shape[0], *(-(-n // patch) for n in shape[1:])))
    for axis in range(2, x.ndim):
        x = x.repeat(patch, axis=axis)
    x = x[(slice(None), slice(None), *(slice(n) for n in shape[1:]))]
    ones = (1,) * (x.ndim - 2)
    x = x * generator.uniform(0.3, 1.5, (count, 1, *ones))
    return (x + generator.normal(0, 1, (count, shape[0], *ones))).astype(np.float32)


def tokens(length, vocabulary, count=INPUTS):
    """Rows of token ids from 1; each row prefers some of them."""
    generator = np.random.default_rng(2)
    rows = []
    for _ in range(count):
        favourites = generator.choice(np.arange(1, vocabulary), 6)
        rows.append(generator.choice(favourites, length))
    return np.array(rows, np.int64)


def padding(ids):
    """Masks of different lengths, and ids with 0 behind them."""
    lengths = np.random.default_rng(3).integers(ids.shape[1] // 2, ids.shape[1] + 1, len(ids))
    mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    return ids * mask, mask


def table(count=INPUTS, columns=6):
    """A table with a label that depends on it, and a number."""
    generator = np.random.default_rng(4)
    x = generator.normal(0, 1, (count, columns)).astype(np.float32)
    x = x * np.linspace(1, 4, columns, dtype=np.float32) + np.arange(columns, dtype=np.float32)
    number = x[:, 0] * 2 - x[:, 1] + 0.5 * x[:, 2] * np.abs(x[:, 3])
    label = np.digitize(number, np.quantile(number, [0.33, 0.67]))
    return x, label.astype(np.int64), number.astype(np.float32)


# PyTorch.


def settle(model, inputs, batch_norm=True, apart=False):
    """Statistics of batch normalisation from the inputs, and logits around zero. `apart`: the last layer looks at
    where inputs differ most, as a trained one does. Of a deep random network they hardly differ elsewhere, and
    differences of nearly equal numbers are rounding errors, in every runtime."""
    tensors = [torch.from_numpy(x) for x in inputs]
    with torch.no_grad():
        norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        for norm in norms if batch_norm else []:
            norm.reset_running_stats()
            norm.momentum = None
        if norms and batch_norm:
            model.train()
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.eval()
            model(*tensors)
        model.eval()
        heads = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d)) and m.weight.shape[0] in (1, CLASSES)]
        if heads and apart and not PLAIN:
            look_apart(model, tensors, heads[-1])
        logits = first(model(*tensors))
        spread = logits.std(0)
        if heads and logits.ndim == 2:
            head = heads[-1]
            scale = (1 / spread.clamp_min(1e-6)).reshape(-1, *[1] * (head.weight.ndim - 1))
            head.weight.mul_(scale)
            if head.bias is not None:
                head.bias.mul_(scale.flatten())
                head.bias.sub_(first(model(*tensors)).mean(0))
    return model.eval()


def decided(model, inputs):
    """Of spare inputs, those are left out that the network is least decided about: next to a logit of nearly 0, which
    is a difference of large numbers, every rounding error is large."""
    if PLAIN:
        return [x[:INPUTS] for x in inputs]
    with torch.no_grad():
        largest = first(model(*(torch.from_numpy(x) for x in inputs))).abs().amax(-1)
    chosen = largest.argsort(descending=True, stable=True)[:INPUTS].sort().values.numpy()
    return [x[chosen] for x in inputs]


def look_apart(model, tensors, head):
    """Gives a dense layer the two principal components of its inputs as weights, and their negatives."""
    seen = []
    hook = head.register_forward_hook(lambda _module, given, _output: seen.append(given[0]))
    model(*tensors)
    hook.remove()
    features = seen[-1]
    if isinstance(head, nn.Linear) and features.ndim == 2 and len(head.weight) == CLASSES:
        components = torch.linalg.svd((features - features.mean(0)).double(), full_matrices=False).Vh[:2]
        head.weight.copy_(torch.cat([components, -components]))


def first(output):
    if isinstance(output, torch.Tensor):
        return output
    return getattr(output, "logits", None) if hasattr(output, "logits") else output[0]


class Logits(nn.Module):
    """Of a library's model, the logits alone."""

    def __init__(self, model, names=()):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs):
        return first(self.model(**dict(zip(self.names, inputs))) if self.names else self.model(*inputs))


def torch_export(model, inputs, path, dynamo, names, half=False, dynamic=True, opset=None):
    model.eval()
    tensors = [torch.from_numpy(x[:2]) for x in inputs]
    if half:
        model, tensors = model.half(), [t.half() for t in tensors]
    if dynamo:
        batch = torch.export.Dim("batch")
        shapes = tuple({0: batch} for _ in tensors) if dynamic else None
        if isinstance(model, Logits):
            shapes = (shapes,) if shapes else None
        program = torch.onnx.export(
            model, tuple(tensors), input_names=names, output_names=["output"],
            dynamic_shapes=shapes, dynamo=True, verbose=False, opset_version=opset,
        )
        program.save(str(path), external_data=False)
    else:
        torch.onnx.export(
            model, tuple(tensors), str(path), input_names=names, output_names=["output"],
            dynamic_axes={n: {0: "batch"} for n in [*names, "output"]}, opset_version=17, dynamo=False,
        )


def torch_models(name, library, build, names=("input",), exporters=(False, True), **given):
    """Registers a PyTorch model for both exporters. `build()` gives a model and its inputs."""
    for dynamo in exporters:
        source = f"{library}, {'torch.export' if dynamo else 'TorchScript'}"

        def make(path, dynamo=dynamo):
            model, inputs = build()
            settle(model, inputs, apart=library.startswith(("torchvision", "timm")))
            inputs = decided(model, inputs)
            torch_export(model, inputs, path, dynamo, list(names))
            return dict(zip(names, inputs)), None

        export(f"{name}-dynamo" if dynamo else name, source, **given)(make)


def torchvision_model(name, size=64, spare=0, **options):
    def build():
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **options)
        return calmed(model), [smooth(3, size, size, count=INPUTS + spare)]

    return build


def calmed(model):
    """Branches of bottlenecks count a quarter at first. With all of their weight, fifty random layers enlarge every
    rounding error a thousand times; training usually begins with none (`zero_init_residual`)."""
    for module in model.modules():
        if hasattr(module, "bn3") and hasattr(module, "downsample") and not PLAIN:
            nn.init.constant_(module.bn3.weight, 0.25)
    return model


def vgg():
    """VGG-11 with batch norm and the dense layers of its small-image versions."""
    import torchvision

    model = torchvision.models.vgg11_bn(weights=None)
    model.avgpool = nn.AdaptiveAvgPool2d(2)
    dense = [nn.Linear(2048, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, CLASSES)]
    model.classifier = nn.Sequential(*dense)
    return model, [smooth(3, 64, 64)]


def timm_model(name, size=64, **options):
    def build():
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **options)
        return calmed(model), [smooth(3, size, size)]

    return build


TORCHVISION = [
    ("resnet18", "resnet18", {}),
    ("resnet50", "resnet50", {}),
    ("regnet", "regnet_y_400mf", {}),
    ("densenet", "densenet121", {}),
    ("mobilenet-v2", "mobilenet_v2", {"spare": INPUTS}),
    ("mobilenet-v3", "mobilenet_v3_small", {}),
    ("efficientnet", "efficientnet_b0", {}),
    ("convnext", "convnext_tiny", {}),
    ("inception", "inception_v3", {"size": 96, "spare": INPUTS, "aux_logits": False, "init_weights": False}),
    ("googlenet", "googlenet", {"aux_logits": False, "init_weights": False}),
    ("swin-torchvision", "swin_t", {}),
]
for short, long, options in TORCHVISION:
    torch_models(short, f"torchvision {long}", torchvision_model(long, **options))
torch_models("vgg", "torchvision vgg11_bn", vgg)

TIMM = [
    ("vit", "vit_tiny_patch16_224", {"img_size": 64}),
    ("deit", "deit_tiny_patch16_224", {"img_size": 64}),
    ("swin", "swin_tiny_patch4_window7_224", {"img_size": 64, "window_size": 4, "embed_dim": 48}),
    ("mixer", "mixer_s32_224", {"img_size": 96, "size": 96}),
    ("resnet-timm", "resnet26", {}),
    ("efficientnet-timm", "efficientnet_lite0", {}),
    ("convnext-timm", "convnext_atto", {}),
    ("regnet-timm", "regnetx_002", {}),
]
for short, long, options in TIMM:
    torch_models(short, f"timm {long}", timm_model(long, **options))

LENGTH, VOCABULARY = 16, 100


def bert(masked):
    def build():
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=64, num_labels=CLASSES, initializer_range=0.3,
        )
        return text_model(BertForSequenceClassification(config), masked)

    return build


def distilbert():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
        max_position_embeddings=64, num_labels=CLASSES, initializer_range=0.3,
    )
    return text_model(DistilBertForSequenceClassification(config), True)


def gpt2():
    """The library's own classifier: it reads the last token that is no padding."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, num_labels=CLASSES,
        pad_token_id=0, initializer_range=0.3, use_cache=False, bos_token_id=1, eos_token_id=1,
    )
    return text_model(GPT2ForSequenceClassification(config), True)


def llama():
    """RMS normalisation, rotary embeddings, gated MLPs, and heads that share keys and values."""
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, num_labels=CLASSES, pad_token_id=0,
        initializer_range=0.3, use_cache=False, bos_token_id=1, eos_token_id=1,
    )
    return text_model(LlamaForSequenceClassification(config), True)


def text_model(model, masked):
    ids, mask = padding(tokens(LENGTH, VOCABULARY))
    model.config.return_dict = True
    if masked:
        return Logits(model, ("input_ids", "attention_mask")), [ids, mask]
    return Logits(model, ("input_ids",)), [tokens(LENGTH, VOCABULARY)]


class CausalClassifier(nn.Module):
    """A GPT in a page: causal attention written out, the last position decides."""

    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.randn(LENGTH, width) * 0.3)
        layer = lambda: nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList(layer() for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids):
        x = self.embed(ids) + self.position
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(self.norm(x[:, -1]))


class TextCnn(nn.Module):
    """Kim's CNN over words: filters of three lengths, maxima over time."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 24)
        self.convs = nn.ModuleList(nn.Conv1d(24, 16, k) for k in (2, 3, 4))
        self.head = nn.Linear(48, CLASSES)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        pooled = [torch.relu(conv(x)).amax(2) for conv in self.convs]
        return self.head(torch.cat(pooled, 1))


class EmbeddingBag(nn.Module):
    def __init__(self, written_out):
        super().__init__()
        self.bag = nn.Embedding(VOCABULARY, 24) if written_out else nn.EmbeddingBag(VOCABULARY, 24)
        self.written_out = written_out
        self.hidden = nn.Linear(24, 32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, ids):
        x = self.bag(ids).mean(1) if self.written_out else self.bag(ids)
        return self.head(torch.relu(self.hidden(x)))


class Recurrent(nn.Module):
    """Over numbers or over words; the last output decides."""

    def __init__(self, cell, bidirectional=False, words=False, layers=1):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 12) if words else nn.Identity()
        self.cell = cell(12, 16, layers, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(32 if bidirectional else 16, CLASSES)

    def forward(self, x):
        return self.head(self.cell(self.embed(x))[0][:, -1])


def signal(layers, *shape):
    def build():
        return layers(), [smooth(*shape, patch=4)]

    return build


def conv1d():
    return nn.Sequential(
        nn.Conv1d(3, 16, 7, 2, 3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(3, 2, 1),
        nn.Conv1d(16, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.AvgPool1d(2),
        nn.Conv1d(32, 32, 3, padding=2, dilation=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


def conv3d():
    return nn.Sequential(
        nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(8, 16, (1, 3, 3), stride=(1, 2, 2), groups=2), nn.ReLU(), nn.AvgPool3d((2, 1, 1)),
        nn.Conv3d(16, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.AdaptiveAvgPool3d(1),
        nn.Flatten(), nn.Linear(16, CLASSES),
    )


def video_resnet():
    import torchvision

    return torchvision.models.video.r3d_18(weights=None, num_classes=CLASSES), [smooth(3, 8, 32, 32)]


def sequence():
    return np.ascontiguousarray(smooth(12, 20, patch=3).transpose(0, 2, 1))


def small_cnn(outputs=CLASSES):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 64, 32), nn.ReLU(), nn.Linear(32, outputs),
    )


class TwoInputs(nn.Module):
    """A picture and a table of numbers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 12, 3, 2), nn.ReLU(), nn.Conv2d(12, 16, 3, 2), nn.ReLU())
        self.dense = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, CLASSES))

    def forward(self, image, table):
        return self.head(torch.cat([self.conv(image).mean((2, 3)), self.dense(table)], 1))


IDS = lambda model: lambda: (model(), [tokens(LENGTH, VOCABULARY)])
SERIES = lambda *arguments, **options: lambda: (Recurrent(*arguments, **options), [sequence()])
MASKED = ("input_ids", "attention_mask")
torch_models("bert", "transformers BertForSequenceClassification", bert(False), ("input_ids",))
torch_models("bert-mask", "transformers BertForSequenceClassification", bert(True), MASKED)
torch_models("distilbert", "transformers DistilBertForSequenceClassification", distilbert, MASKED)
torch_models("gpt2", "transformers GPT2ForSequenceClassification", gpt2, MASKED)
torch_models("gpt-small", "PyTorch TransformerEncoder, causal", IDS(CausalClassifier), ("ids",))
torch_models("llama", "transformers LlamaForSequenceClassification", llama, MASKED)
torch_models("text-cnn", "PyTorch", IDS(TextCnn), ("ids",))
torch_models("embedding-mean", "PyTorch Embedding and mean", IDS(lambda: EmbeddingBag(True)), ("ids",))
torch_models("embedding-bag", "PyTorch EmbeddingBag", IDS(lambda: EmbeddingBag(False)), ("ids",))
torch_models("lstm", "PyTorch", SERIES(nn.LSTM), ("series",))
torch_models("lstm-two", "PyTorch, two layers, both directions", SERIES(nn.LSTM, True, layers=2), ("series",))
torch_models(
    "lstm-words", "PyTorch, on token ids", IDS(lambda: Recurrent(nn.LSTM, words=True)), ("ids",)
)
torch_models("gru", "PyTorch", SERIES(nn.GRU), ("series",))
torch_models("gru-both", "PyTorch, both directions", SERIES(nn.GRU, True), ("series",))
torch_models("rnn", "PyTorch", SERIES(nn.RNN), ("series",))
torch_models("conv1d", "PyTorch", signal(conv1d, 3, 64), ("signal",))
torch_models("conv3d", "PyTorch", signal(conv3d, 2, 8, 16, 16), ("volume",))
torch_models("resnet3d", "torchvision r3d_18", video_resnet, ("video",))
torch_models("two-inputs", "PyTorch", lambda: (TwoInputs(), [smooth(3, 32, 32), table()[0]]), ("image", "table"))
torch_models("one-logit", "PyTorch", lambda: (small_cnn(1), [smooth(3, 32, 32)]))


@export("gpt-small-attention", "PyTorch TransformerEncoder, causal, torch.export, opset 23")
def attention_operator(path):
    """From opset 23 on, attention is an operator."""
    model, inputs = IDS(CausalClassifier)()
    settle(model, inputs)
    torch_export(model, inputs, path, True, ["ids"], opset=23)
    return {"ids": inputs[0]}, None


@export("half", "PyTorch, model.half()", tolerance=HALF)
def half_export(path):
    model, inputs = small_cnn(), [smooth(3, 32, 32).astype(np.float16).astype(np.float32)]
    settle(model, inputs)
    torch_export(model, inputs, path, False, ["input"], half=True)
    return {"input": inputs[0].astype(np.float16)}, None


@export("half-resnet18", "torchvision resnet18, onnxconverter-common", tolerance=HALF)
def half_resnet(path):
    from onnxconverter_common import float16

    inputs = base_resnet(path)
    half = float16.convert_float_to_float16(onnx.load(path), keep_io_types=True)
    onnx.save(half, path)
    return inputs, None


# Quantised by ONNX Runtime.


def base_resnet(path):
    model, inputs = torchvision_model("resnet18", 32, spare=INPUTS)()
    settle(model, inputs, apart=True)
    inputs = decided(model, inputs)
    torch_export(model, inputs, path, False, ["input"])
    return {"input": inputs[0]}


def base_mobilenet(path):
    model, inputs = torchvision_model("mobilenet_v2", 32, spare=INPUTS)()
    settle(model, inputs, apart=True)
    inputs = decided(model, inputs)
    torch_export(model, inputs, path, False, ["input"])
    return {"input": inputs[0]}


def base_cnn(path):
    model, inputs = small_cnn(), [smooth(3, 32, 32)]
    settle(model, inputs)
    torch_export(model, inputs, path, False, ["input"])
    return {"input": inputs[0]}


def base_mlp(path):
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, CLASSES))
    inputs = [table()[0]]
    settle(model, inputs)
    torch_export(model, inputs, path, False, ["input"])
    return {"input": inputs[0]}


def quantised(name, source, base, how):
    @export(name, source, tolerance=INT8)
    def make(path):
        from onnxruntime import quantization

        inputs = base(path)
        prepared = path.with_name(path.stem + "-prepared.onnx")
        quantization.shape_inference.quant_pre_process(path, prepared, skip_symbolic_shape=True)
        if how == "dynamic":
            quantization.quantize_dynamic(
                prepared, path, op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                weight_type=quantization.QuantType.QUInt8,
            )
        else:
            quantization.quantize_static(
                prepared, path, Calibration(inputs),
                quant_format=getattr(quantization.QuantFormat, how), per_channel=how == "QDQ",
            )
        prepared.unlink()
        return inputs, None


class Calibration:
    """The inputs, one at a time, as ONNX Runtime's quantisation asks for them."""

    def __init__(self, inputs):
        rows = len(next(iter(inputs.values())))
        self.rows = iter([{k: v[i : i + 1] for k, v in inputs.items()} for i in range(rows)])

    def get_next(self):
        return next(self.rows, None)


for short, base in [("cnn", base_cnn), ("resnet18", base_resnet), ("mobilenet", base_mobilenet)]:
    quantised(f"qdq-{short}", f"ONNX Runtime QDQ of a {short}", base, "QDQ")
    quantised(f"qoperator-{short}", f"ONNX Runtime QOperator of a {short}", base, "QOperator")
for short, base in [("cnn", base_cnn), ("mlp", base_mlp)]:
    quantised(f"dynamic-{short}", f"ONNX Runtime dynamic int8 of a {short}", base, "dynamic")


# scikit-learn.


def sklearn_export(
    name, source, build, output="probabilities", binary=False, linear=False, rounded=False, **options
):
    @export(name, f"scikit-learn {source}", output, linear=linear)
    def make(path):
        from skl2onnx import to_onnx

        x, labels, number = table()
        if rounded:
            x[:, 0] = x[:, 0].round().clip(-1, 2)
        y = number if output == "numbers" else labels
        if binary:
            y = (y > 0).astype(np.int64)
        model = build().fit(x, y)
        arguments = {"options": {id(model): options}} if options else {}
        onnx.save(to_onnx(model, x[:1], **arguments), path)
        return {"X": x}, y


def mlp(**options):
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(hidden_layer_sizes=(16, 8), random_state=0, max_iter=300, **options)


def logistic():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(random_state=0)


def pipeline(*steps):
    def build():
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

        known = {"scale": StandardScaler, "range": MinMaxScaler, "norm": Normalizer, "impute": SimpleImputer}
        return make_pipeline(*(known[step]() for step in steps), mlp())

    return build


def encoded():
    """The first column in four categories, the second as a truth value, the others as they are."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Binarizer, OneHotEncoder

    encoder = OneHotEncoder(categories=[[-1, 0, 1, 2]], handle_unknown="ignore")
    columns = make_column_transformer((encoder, [0]), (Binarizer(), [1]), remainder="passthrough", sparse_threshold=0)
    return make_pipeline(columns, mlp())


def mlp_regressor():
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(hidden_layer_sizes=(16, 8), random_state=0, max_iter=500)


def scaled_regressor():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), mlp_regressor())


def linear_regressor():
    from sklearn.linear_model import LinearRegression

    return LinearRegression()


def forest():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(8, random_state=0)


sklearn_export("sklearn-logistic", "LogisticRegression", logistic, linear=True, zipmap=False)
sklearn_export("sklearn-mlp", "MLPClassifier", mlp, zipmap=False)
sklearn_export("sklearn-logistic-two", "LogisticRegression, two classes", logistic, binary=True, linear=True, zipmap=False)
sklearn_export("sklearn-mlp-two", "MLPClassifier, two classes", mlp, binary=True, zipmap=False)
sklearn_export("sklearn-mlp-zipmap", "MLPClassifier, ZipMap", mlp)
sklearn_export("sklearn-mlp-tanh", "MLPClassifier, tanh", lambda: mlp(activation="tanh"), zipmap=False)
sklearn_export("sklearn-pipeline", "StandardScaler, MLPClassifier", pipeline("scale"), zipmap=False)
sklearn_export(
    "sklearn-pipeline-long", "SimpleImputer, MinMaxScaler, Normalizer, MLPClassifier, ZipMap",
    pipeline("impute", "range", "norm"),
)
sklearn_export(
    "sklearn-encoded", "ColumnTransformer of OneHotEncoder and Binarizer, MLPClassifier", encoded, rounded=True,
    zipmap=False,
)
sklearn_export("sklearn-regressor", "MLPRegressor", mlp_regressor, "numbers")
sklearn_export("sklearn-regressor-pipeline", "StandardScaler, MLPRegressor", scaled_regressor, "numbers")
sklearn_export("sklearn-linear-regression", "LinearRegression", linear_regressor, "numbers", linear=True)
sklearn_export("sklearn-forest", "RandomForestClassifier", forest, "trees", zipmap=False)


@export("xgboost", "XGBoost, onnxmltools", "trees")
def xgboost_export(path):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType
    from xgboost import XGBClassifier

    x, labels, _ = table()
    model = XGBClassifier(n_estimators=5, max_depth=3).fit(x, labels)
    kind = [("X", FloatTensorType([None, x.shape[1]]))]
    onnx.save(onnxmltools.convert_xgboost(model, initial_types=kind), path)
    return {"X": x}, labels


# Keras.


def keras_export(name, source, build, inputs, way="tf2onnx", output="probabilities"):
    @export(name, f"Keras {source}, {way}", output)
    def make(path):
        import keras
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        model = build(keras)
        x = inputs()
        signature = [tf.TensorSpec((None, *x.shape[1:]), tf.as_dtype(x.dtype), name="input")]
        if way == "keras":
            model.export(str(path), format="onnx", input_signature=signature, verbose=False)
        else:
            import tf2onnx

            function = tf.function(lambda t: model(t, training=False), input_signature=signature)
            tf2onnx.convert.from_function(function, signature, opset=17, output_path=str(path))
        name = onnx.load(path).graph.input[0].name
        return {name: x}, None


def keras_cnn(keras):
    layers = keras.layers
    return keras.Sequential([
        keras.Input((32, 32, 3)), layers.Conv2D(16, 3, activation="relu", padding="same"),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.Conv2D(32, 3, activation="relu"),
        layers.DepthwiseConv2D(3, activation="relu"), layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"), layers.Dense(CLASSES, kernel_initializer="orthogonal", activation="softmax"),
    ])


def keras_recurrent(cell, both=False):
    def build(keras):
        layers = keras.layers
        layer = getattr(layers, cell)(16)
        return keras.Sequential([
            keras.Input((20, 12)), layers.Bidirectional(layer) if both else layer,
            layers.Dense(CLASSES, activation="softmax"),
        ])

    return build


def channels_last():
    return np.ascontiguousarray(smooth(3, 32, 32).transpose(0, 2, 3, 1))


keras_export("keras-cnn", "CNN", keras_cnn, channels_last)
keras_export("keras-cnn-export", "CNN", keras_cnn, channels_last, "keras")
keras_export("keras-lstm", "LSTM", keras_recurrent("LSTM"), sequence)
keras_export("keras-gru", "GRU", keras_recurrent("GRU"), sequence)
keras_export("keras-lstm-both", "LSTM, both directions", keras_recurrent("LSTM", True), sequence)


if __name__ == "__main__":
    sys.exit(main())
