#!/usr/bin/env python3
"""Makes the numbers of docs/results again, and stops where they changed.

    scripts/results.py --quick                                     # on fixtures, in minutes
    scripts/results.py --models models --data data                 # all whose files are there: hours
    scripts/results.py --models models --data data --only sadl1    # runs whose names begin so
    scripts/results.py ... --update                                # takes what comes out as what is right
    scripts/results.py --list                                      # the runs: names, commands, what they need

What a run printed stands in docs/results/NAME.txt (quick ones: docs/results/quick/NAME.txt), its result as JSON
in NAME.json and its plot in NAME.svg, where the command has them. A run is made in a folder of work (`--work`) in which
`models`, `data` and `fixtures` are links, so that texts are the same wherever files are. What is finished there by the
same binary is not run again; `npcov lab` goes on after the parts that it kept. `--update` also writes the command of each
run, and how long it took, to docs/results/times.json.

Pages show what is kept: a block after a comment `<!-- NAME -->` is the text of that run. A comment `<!-- cells NAME/BLOCK/ROW/COLUMN,
... -->` before a table says where the numbers of its columns stand, but for the first one: in the text of a run, in the block that
begins so, in the row and the column (from 0, two spaces apart). `{row}` is what the table calls the row.

Two texts are the same when their words are, and their numbers differ by no more than the run allows: nothing, for all
that follows from model, data and seed; anything, for times. All runs have seed 0, which is npcov's default. The exit
code is 1 when something changed or failed, or when nothing is kept of a run. Runs whose models or data are not there are
named and left out.
"""

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "results"


@dataclass
class Run:
    """A command whose output is kept."""

    name: str
    command: str
    # Files of work that the command makes and later ones need. Such a run's text is kept only where it is `shown`.
    makes: list = field(default_factory=list)
    shown: bool = False
    # How far numbers may be from those that are kept; None for times, which are not compared.
    within: float = 0.0
    quick: bool = False

    def words(self, out):
        return shlex.split(self.command.replace("OUT", str(out)))

    def needs(self):
        """The models and data that the command names."""
        files = re.findall(r"(?:models|data|fixtures)/[^\s:,]+", self.command)
        return [file for file in files if not file.endswith(".npcov")]

    def kept(self):
        return (PAGES / "quick" if self.quick else PAGES) / f"{self.name}.txt"


MNIST = "data/mnist/train-images-idx3-ubyte.gz"
DIGITS = "data/mnist/t10k-images-idx3-ubyte.gz"
FASHION = "fixtures/fashion-1000.npz"
TIMED = "snpc,anpc,kmnc,nbc,lsc,dsc,nc:thresholds=0,idc"

# What relevance is shared out by, beside the default: alpha-beta with 0.5.
ATTRIBUTIONS = {
    "zplus": "--rule zplus",
    "epsilon": "--rule epsilon:0.01",
    "gamma": "--rule gamma:0.25",
    "gradient-input": "--attribution gradient-input",
}


# The attack of Carlini and Wagner in RQ4: with the rate of the original tool it finds nothing in so few steps.
ATTACKS = "--confidences 0 --cw-lambdas 0,100 --cw-rate 0.01"


def network(name, model, train, test, graph, rq1="", rq2="", rq3="", rq4=ATTACKS, rounds=5, rq5="", scale="--divide 255",
            paper=None):
    """The paper's five experiments on one network."""
    paper = f" --paper {paper}" if paper else ""
    study = f"models/{model} --data {train} {scale} --choices tables"
    runs = [
        Run(f"{name}-graph", f"build models/{model} --data {train} {scale} {graph} --anpc-upper auto -o {name}.npcov",
            [f"{name}.npcov"]),
        Run(f"{name}-rq1", f"lab rq1 {study} --test {test} {rq1}{paper} -o OUT"),
        Run(f"{name}-rq2", f"lab rq2 {study} {rq2}{paper} -o OUT"),
        Run(f"{name}-rq3", f"lab rq3 {name}.npcov --data {test} {rq3}{paper} -o OUT"),
        Run(f"{name}-rq4", f"lab rq4 {name}.npcov --data {test} {rq4}{paper} -o OUT"),
        Run(f"{name}-rq5", f"lab rq5 {name}.npcov --data {test} {rq5} --rounds {rounds} --criteria {TIMED}{paper} -o OUT",
            within=None),
    ]
    return runs


def attributions(name, model, train, test, graph, rq1, rq3, quick=False):
    """RQ1 and RQ3 with other attributions than the paper's."""
    runs = []
    for word, flags in {"alpha-beta": "", **ATTRIBUTIONS}.items():
        label = f"{name}-{word}"
        runs += [
            Run(f"{label}-rq1", f"lab rq1 {model} --data {train} --divide 255 {flags} {rq1} -o OUT", quick=quick),
            Run(f"{label}-graph",
                f"build {model} --data {train} --divide 255 {flags} {graph} --criteria snpc,anpc -o {label}.npcov",
                [f"{label}.npcov"], quick=quick),
            Run(f"{label}-rq3", f"lab rq3 {label}.npcov --data {test} {rq3} --criteria snpc,anpc -o OUT", quick=quick),
        ]
    return runs


# Orders in which inputs are chosen to be labelled.
ORDERS = [
    "random", "score:deepgini", "score:margin", "score:unfamiliar", "score:contested", "score:lsa", "score:dsa", "score:mdsa",
    "additional:snpc", "additional:anpc", "additional:kmnc", "additional:nbc", "additional:snac", "additional:tknc",
    "additional:idc",
]


def selections(name, data, options=""):
    """How early orders show misclassified inputs."""
    runs = []
    for order in ORDERS:
        label = f"{name}-select-{order.replace(':', '-')}"
        runs.append(Run(label, f"select {name}.npcov --data {data} --by {order} --count 1 {options} -o OUT/chosen.npz"))
    return runs


def quick_runs():
    lenet = f"fixtures/lenet.onnx --data {FASHION} --divide 255"
    runs = [
        Run("lenet-graph", f"build {lenet} --limit 300 -o lenet.npcov", ["lenet.npcov"]),
        Run("lenet-rq1", f"lab rq1 {lenet} --quick -o OUT"),
        Run("lenet-rq2", f"lab rq2 {lenet} --quick -o OUT"),
        Run("lenet-classes-rq2", f"lab rq2 {lenet} --quick --each-class -o OUT"),
        Run("lenet-rq3", f"lab rq3 lenet.npcov --data {FASHION} --quick -o OUT"),
        Run("lenet-rq4", f"lab rq4 lenet.npcov --data {FASHION} --quick -o OUT"),
        Run("lenet-rq5", f"lab rq5 lenet.npcov --data {FASHION} --quick -o OUT", within=None),
        Run("lenet-mutate", f"mutate {lenet} --ratio 0.01,0.05"),
        Run("lenet-mutate-inside",
            f"mutate {lenet} --operators neb --ratio 0.05 --quality 0 --graph lenet.npcov --paths inside"),
        Run("lenet-mutate-outside",
            f"mutate {lenet} --operators neb --ratio 0.05 --quality 0 --graph lenet.npcov --paths outside"),
    ]
    runs += selections("lenet", FASHION)
    # The limits that the paper names: numbers, tables, recurrent layers, attention.
    prices = ("fixtures/prices.csv --label-column price", "--range=-100000,100000")
    images = (f"{FASHION} --divide 255", "")
    for name, (data, rq3) in [("prices", prices), ("lstm", images), ("gru", images), ("vit", images)]:
        study = f"fixtures/{name}.onnx --data {data}"
        runs += [
            Run(f"{name}-rq1", f"lab rq1 {study} --quick -o OUT"),
            Run(f"{name}-graph", f"build {study} --limit 300 -o {name}.npcov", [f"{name}.npcov"]),
            Run(f"{name}-rq3", f"lab rq3 {name}.npcov --data {data} --quick {rq3} -o OUT"),
        ]
    runs += attributions("lenet", "fixtures/lenet.onnx", FASHION, FASHION, "--limit 300", "--quick", "--quick")
    for run in runs:
        run.quick = True
    return runs


def whole_runs():
    runs = network("sadl1", "sadl1-mnist.onnx", MNIST, DIGITS, "--alpha 0.8 --clusters 4 --beta 0.8",
                   rq3="--epsilon 0.3", paper="sadl-1")
    cifar = ("data/cifar-10:train", "data/cifar-10:test")
    runs += network("sadl2", "sadl2-cifar10.onnx", *cifar, "--alpha 0.7 --clusters 7 --beta 0.9",
                    rq3="--epsilon 0.03", paper="sadl-2")
    # It is dear: fewer inputs for RQ1 and for the 16 abstract paths of RQ2, and fewer attacks.
    runs += network("vgg16", "vgg16-cifar10.onnx", *cifar, "--alpha 0.9 --clusters 7 --beta 0.9",
                    rq1="--sample 10000 --controls 1000", rq2="--sample 5000", rq3="--epsilon 0.03",
                    rq4="--sizes 100 --epsilons 0.1 --lambdas 0,1,10,100,1000,10000 --pgd-steps 10 --confidences 0 "
                        "--cw-lambdas 0 --cw-rate 0.01 --cw-rounds 1 --cw-steps 20",
                    rounds=3, paper="vgg16")
    svhn = ("data/svhn/train.npz", "data/svhn/test.npz")
    convolutions = "--layers 0,1,2,3,4"
    runs += network("alexnet", "alexnet-svhn.onnx", *svhn, f"{convolutions} --alpha 0.7 --clusters 4 --beta 0.6",
                    rq1=convolutions, rq2=convolutions, rq3="--epsilon 0.03",
                    rq4=f"{ATTACKS} --sizes 100", rounds=3, paper="alexnet")
    # 600 images of which 4 are misclassified allow no larger suites; at 224x224 steps of attacks are dear.
    photos = "--crop 224 --divide 255 --mean 0.498039216 --std 0.501960784"
    runs += network("efficientnet", "efficientnet-lite0-imagenette.onnx", "data/imagenette/train", "data/imagenette/val",
                    "--alpha 0.8 --clusters 4 --beta 0.8", rq1="--sample 200 --controls 50 --per-class 10",
                    rq2="--sample 200 --clusters 1,4 --betas 0.6,0.9", rq3="--epsilon 0.03 --size 200 --repetitions 2 --steps 20",
                    rq4="--sizes 100 --epsilons 0.03 --lambdas 0,1,1000 --pgd-steps 10 --confidences 0 --cw-lambdas 0 "
                        "--cw-rate 0.01 --cw-rounds 1 --cw-steps 20",
                    rounds=3, rq5="--inputs 100", scale=photos, paper="imagenet")
    runs += attributions("sadl1", "models/sadl1-mnist.onnx", MNIST, DIGITS,
                         "--limit 5000 --alpha 0.8 --clusters 4 --beta 0.8",
                         f"--test {DIGITS} --choices tables --sample 500 --controls 200 --per-class 20",
                         "--epsilon 0.3 --size 500 --repetitions 2")
    # Every unit of a feature map is a neuron, not every channel.
    for name, model, train, test, size, paper in [
        ("sadl1", "sadl1-mnist.onnx", MNIST, DIGITS, 1000, "sadl-1"),
        ("sadl2", "sadl2-cifar10.onnx", *cifar, 1000, "sadl-2"),
        ("vgg16", "vgg16-cifar10.onnx", *cifar, 200, "vgg16"),
        ("alexnet", "alexnet-svhn.onnx", *svhn, 500, f"alexnet {convolutions}"),
    ]:
        runs.append(Run(f"{name}-units-rq1",
                        f"lab rq1 models/{model} --data {train} --divide 255 --choices tables --test {test} --units "
                        f"--sample {size} --controls 100 --per-class 20 --paper {paper} -o OUT"))
    # Every class chooses parameters for itself.
    for name, model, train, size, options in [
        ("sadl1", "sadl1-mnist.onnx", MNIST, 4000, ""),
        ("sadl2", "sadl2-cifar10.onnx", cifar[0], 4000, ""),
        ("alexnet", "alexnet-svhn.onnx", svhn[0], 4000, convolutions),
        ("vgg16", "vgg16-cifar10.onnx", cifar[0], 1000, ""),
    ]:
        runs.append(Run(f"{name}-classes-rq2",
                        f"lab rq2 models/{model} --data {train} --divide 255 --choices tables --sample {size} --each-class "
                        f"{options} -o OUT"))
    for kind, layers in [("convolutions", "0,1"), ("dense", "2")]:
        runs.append(Run(f"sadl1-{kind}-rq1",
                        f"lab rq1 models/sadl1-mnist.onnx --data {MNIST} --divide 255 --choices tables --test {DIGITS} "
                        f"--layers {layers} --sample 300 --controls 100 --per-class 20 --paper sadl-1 -o OUT"))
    for name, model, test, limit in [
        ("sadl1", "sadl1-mnist.onnx", DIGITS, 2000),
        ("sadl2", "sadl2-cifar10.onnx", cifar[1], 2000),
        ("alexnet", "alexnet-svhn.onnx", svhn[1], 2000),
        ("vgg16", "vgg16-cifar10.onnx", cifar[1], 300),
    ]:
        runs.append(Run(f"{name}-mutate",
                        f"mutate models/{model} --data {test} --limit {limit} --divide 255 --ratio 0.01,0.05"))
        runs += selections(name, test)
    return runs + kinds()


def kinds():
    """RQ6 with other attributions, and RQ7 with parameters of each class, on the network of `npcov demo`."""
    demo = "out/clothing-demo"
    train, test = f"{demo}/train.npz", f"{demo}/test.npz"
    build = f"build {demo}/model.onnx --data {train} --divide 255 --criteria snpc"
    runs = [Run("clothing-demo", "demo --keep OUT", [train])]
    for word, flags in {"alpha-beta": "", **ATTRIBUTIONS}.items():
        label = f"clothing-{word}"
        runs += [
            Run(f"{label}-graph", f"{build} {flags} -o {label}.npcov", [f"{label}.npcov"]),
            Run(f"{label}-rq6", f"lab rq6 {label}.npcov --data {train} -o OUT"),
            Run(f"{label}-rq7", f"lab rq7 {label}.npcov --data {train} --test {test} --size 400 -o OUT"),
        ]
    # The paper's clusters: as many in all classes, or so many in each as its paths suggest, or by parameters that each
    # class chose for itself.
    own = "out/clothing-own-rq2/rq2-classes.toml"
    runs.append(Run("clothing-own-rq2", f"lab rq2 {demo}/model.onnx --data {train} --divide 255 --each-class -o OUT", [own],
                    shown=True))
    for word, clusters in [("four", "--clusters 4"), ("auto", "--clusters auto"), ("own", f"--config {own}")]:
        label = f"clothing-{word}"
        runs += [
            Run(f"{label}-graph", f"{build} {clusters} -o {label}.npcov", [f"{label}.npcov"]),
            Run(f"{label}-rq7", f"lab rq7 {label}.npcov --data {train} --test {test} --size 400 -o OUT"),
        ]
    return runs


NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def differences(old, new, within):
    """Lines whose words differ, or whose numbers differ by more than `within`, with their numbers.

    >>> differences("a 1\\nb 2", "a 1\\nb 3\\nc", 0)
    [(2, 'b 2', 'b 3'), (3, None, 'c')]
    """
    found = []
    old, new = old.splitlines(), new.splitlines()
    for number in range(max(len(old), len(new))):
        a = old[number] if number < len(old) else None
        b = new[number] if number < len(new) else None
        if a is None or b is None or not same(a, b, within):
            found.append((number + 1, a, b))
    return found


def same(a, b, within):
    """Whether two lines say the same.

    >>> same("SNPC  0.691  met", "SNPC  0.69   met", 0.01), same("SNPC  0.691", "SNPC  0.69", 0)
    (True, False)
    >>> same("inputs  1,000", "inputs  2,000", 999), same("inputs  1,000", "inputs  2,000", 1000)
    (False, True)
    >>> same("a  1.5  1.1 met", "a  9.25  1.1 missed", None), same("a  1.5", "b  1.5", None)
    (True, False)
    >>> same("KMNC  0.1", "KMNC  -", 1)
    False
    """
    if a == b:
        return True
    # Columns are as wide as their numbers; a `-` stands where there is no number.
    words = [re.sub(r"\s+", " ", NUMBER.sub("#", line)) for line in (a, b)]
    if within is None:
        # Whether a bar is met is a matter of time, too.
        words = [re.sub(" (missed|met)", "", line) for line in words]
    if words[0] != words[1] or within is None:
        return words[0] == words[1]
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b))
    return all(abs(float(x.replace(",", "")) - float(y.replace(",", ""))) <= within + 1e-12 for x, y in pairs)


def kept_text(name):
    """What is kept of a run; None where nothing is."""
    files = [folder / f"{name}.txt" for folder in (PAGES, PAGES / "quick")]
    return next((file.read_text() for file in files if file.exists()), None)


def pages():
    """All pages that show results."""
    return [PAGES.parent / "results.md", PAGES.parent / "what-coverage-tells.md", *sorted(PAGES.glob("*.md"))]


def check_pages(update):
    """Pages show texts that are kept: a comment with the name of the run, and a block. Those that differ are named."""
    differing = []
    pattern = re.compile(r"(<!-- ([\w-]+) -->\n```\n)(.*?)(```\n)", re.S)
    for page in pages():
        old = page.read_text()

        def kept(match):
            return match[1] + (kept_text(match[2]) or "") + match[4]

        new = pattern.sub(kept, old)
        if new != old:
            differing.append(page.name)
            if update:
                page.write_text(new)
    return differing


def cell_of(text, block, row, column):
    """What stands in a row and a column of a block of a text; None where there is no such row.

    >>> text = "RQ3\\n\\nnatural\\n  NC 0  0.00  0.92\\n\\nbenign\\n  NC 0  0.01  0.02"
    >>> cell_of(text, "benign", "nc 0", 2), cell_of(text, "", "NC 0", 1), cell_of(text, "benign", "NC", 1)
    ('0.02', '0.00', None)
    """
    for lines in (part.splitlines() for part in text.split("\n\n") if part.startswith(block)):
        for columns in (re.split(r"\s{2,}", line.strip()) for line in lines):
            if columns[0].lower() == row.lower() and column < len(columns):
                return columns[column]
    return None


def wrong_cells(page, text_of):
    """Numbers in tables of a page that are not those of the texts that the comment before the table names.

    >>> page = "<!-- cells a/natural/{row}/1, select-{row}//APFD/1 -->\\n| | a | b |\\n|---|---|---|\\n| `NC:0` | +0.5 | 0.61 |\\n"
    >>> kept = {"a": "natural\\n  NC:0  0.51", "select-NC-0": "APFD  0.61, random 0.5"}.get
    >>> wrong_cells(page, kept)
    ['NC:0: +0.5, in a it is 0.51']
    """
    wrong = []
    for match in re.finditer(r"<!-- cells ([^>]*?) -->\n\|.*\n\|.*\n((?:\|.*\n)*)", page):
        places = [place.strip().split("/") for place in match[1].split(",")]
        for line in match[2].splitlines():
            row, *cells = [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]
            for cell, (name, block, label, column) in zip(cells, places):
                name = name.format(row=row.replace(":", "-"))
                there = cell_of(text_of(name) or "", block, label.format(row=row), int(column))
                numbers = [NUMBER.findall(text or "")[:1] for text in (cell, there)]
                if [float(n.replace(",", "")) for n in numbers[0]] != [float(n.replace(",", "")) for n in numbers[1]]:
                    wrong.append(f"{row}: {cell}, in {name} it is {there}")
    return wrong


def key(run, runs, binary):
    """What the output of a run follows from: the binary, its command, and the commands that made what it needs.

    >>> graph, rq3 = Run("a-graph", "build a.onnx -o a.npcov", ["a.npcov"]), Run("a-rq3", "lab rq3 a.npcov")
    >>> known = key(rq3, [graph, rq3], "one")
    >>> known == key(rq3, [graph, rq3], "one"), known == key(rq3, [graph, rq3], "another")
    (True, False)
    >>> known == key(rq3, [Run("a-graph", "build a.onnx --limit 9 -o a.npcov", ["a.npcov"]), rq3], "one")
    False
    """
    makers = [other for other in runs if set(other.makes) & set(run.command.split()) and other != run]
    words = [binary, run.command, *(key(maker, runs, binary) for maker in makers)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


class Workshop:
    """A folder in which runs are made."""

    def __init__(self, options):
        self.npcov = str(Path(options.npcov).resolve())
        self.folder = Path(options.work).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, target in [("models", options.models), ("data", options.data), ("fixtures", ROOT / "fixtures")]:
            link = self.folder / name
            if link.is_symlink():
                link.unlink()
            if target:
                link.symlink_to(Path(target).resolve())
        self.options = options
        self.runs = quick_runs() if options.quick else whole_runs()

        self.binary = hashlib.sha256(Path(self.npcov).read_bytes()).hexdigest()

    def missing(self, run):
        return [file for file in run.needs() if not (self.folder / file).exists()]

    def make(self, run):
        """What a run prints, and how many seconds it took; None where it fails."""
        out = self.folder / "out" / run.name
        text, record = (self.folder / "out" / f"{run.name}.{ending}" for ending in ("txt", "record"))
        made = all((self.folder / file).exists() for file in run.makes)
        known = json.loads(record.read_text()) if record.exists() else {"key": None}
        wanted = key(run, self.runs, self.binary)
        if known["key"] != wanted:
            # Parts that another binary or command left there are not those of this one.
            shutil.rmtree(out, ignore_errors=True)
            known = {"key": wanted}
        elif "seconds" in known and made and not self.options.again:
            return text.read_text(), known["seconds"]
        out.mkdir(parents=True, exist_ok=True)
        # What was interrupted before, and goes on now, took time too.
        spent = known.get("spent", 0.0)
        record.write_text(json.dumps({"key": wanted, "spent": spent}))
        command = [self.npcov, *run.words(out.relative_to(self.folder))]
        started = time.monotonic()
        try:
            done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finally:
            seconds = round(spent + time.monotonic() - started, 1)
            record.write_text(json.dumps({"key": wanted, "spent": seconds}))
        if done.returncode:
            print(f"{run.name}: failed: {shlex.join(command)}\n{done.stderr}", file=sys.stderr)
            return None
        print(f"{run.name}: {seconds} s", file=sys.stderr, flush=True)
        text.write_text(done.stdout)
        record.write_text(json.dumps({"key": wanted, "seconds": seconds}))
        return done.stdout, seconds

    def keep_time(self, run, seconds):
        file = PAGES / "times.json"
        times = json.loads(file.read_text()) if file.exists() else {}
        times[run.name] = {"command": f"npcov {run.command}", "seconds": seconds}
        file.write_text(json.dumps(dict(sorted(times.items())), indent=2) + "\n")

    def keep(self, run, text):
        run.kept().parent.mkdir(parents=True, exist_ok=True)
        run.kept().write_text(text)
        if run.quick:
            return
        for file in (self.folder / "out" / run.name).glob("rq?.*"):
            if file.suffix in (".json", ".svg"):
                shutil.copy(file, PAGES / f"{run.name}{file.suffix}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default=ROOT / "target/release/npcov")
    parser.add_argument("--quick", action="store_true", help="the small runs on fixtures")
    parser.add_argument("--models", default=ROOT / "models")
    parser.add_argument("--data", default=ROOT / "data")
    parser.add_argument("--work", default=ROOT / "target/results")
    parser.add_argument("--only", nargs="*", help="runs whose names begin so")
    parser.add_argument("--again", action="store_true", help="also what is finished in the folder of work")
    parser.add_argument("--update", action="store_true", help="keep what comes out")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    runs = quick_runs() if options.quick else whole_runs()
    if options.only:
        runs = [run for run in runs if run.name.startswith(tuple(options.only))]
    if options.list:
        for run in runs:
            print(f"{run.name}\n    npcov {run.command}")
        return 0
    workshop = Workshop(options)
    counts = dict.fromkeys(["same", "changed", "failed", "left out", "made", "kept", "not kept"], 0)
    started = time.monotonic()
    for run in runs:
        missing = workshop.missing(run)
        if missing:
            print(f"{run.name}: left out, {', '.join(missing)} is not there", file=sys.stderr)
            counts["left out"] += 1
            continue
        found = workshop.make(run)
        if found is None:
            counts["failed"] += 1
            continue
        text, seconds = found
        if options.update and not run.quick:
            workshop.keep_time(run, seconds)
        if run.makes and not run.quick and not run.shown:
            # Later runs look at what it made.
            counts["made"] += 1
            continue
        if options.update:
            workshop.keep(run, text)
            counts["kept"] += 1
            continue
        if not run.kept().exists():
            print(f"{run.name}: nothing is kept of it; `--update` keeps it", file=sys.stderr)
            counts["not kept"] += 1
            continue
        found = differences(run.kept().read_text(), text, run.within)
        counts["changed" if found else "same"] += 1
        for line, old, new in found[:10]:
            print(f"{run.name}, line {line}:\n  was {old}\n  is  {new}")
    for page in check_pages(options.update):
        print(f"{page}: {'brought up to' if options.update else 'differs from'} what is kept")
        counts["changed"] += not options.update
    for page in pages():
        for wrong in wrong_cells(page.read_text(), kept_text):
            print(f"{page.name}: {wrong}")
            counts["changed"] += 1
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    print(f"{len(runs)} runs in {time.monotonic() - started:.0f} s: {summary}")
    return 1 if counts["changed"] or counts["failed"] or counts["not kept"] else 0


if __name__ == "__main__":
    sys.exit(main())
