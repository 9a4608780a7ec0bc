#!/usr/bin/env python3
"""Compares attacks with those of torchattacks and foolbox: how often they succeed, and how long
they take.

    benches/attacks/run.py --models FOLDER [--npcov target/release/npcov] [--data data]
                           [--networks sadl1 sadl2] [--peers torchattacks foolbox]
                           [--inputs 1000] [--timed 128] [--threads 2] [--rounds 3]
                           [--skip agreement|speed] [--only TEXT]

FOLDER holds `sadl1-mnist.onnx` and `sadl2-cifar10.onnx`, as `make models` writes them. The peers
get the same weights in PyTorch modules; before anything else the logits of both have to agree to
1e-4.

Success is the share of correctly classified inputs that are misclassified after the attack. All
programs attack the same test images with the same radius, steps, step size and random starts of
their own; C&W with the same weight `c`, confidence, steps and learning rate, and one round, since
torchattacks knows no more. `--only` takes the attacks whose description contains a text.

Times are those of PGD (40 steps, L-infinity): for the peers from tensors in memory to tensors in
memory, for npcov the whole process, with reading the model and the data and writing the file.
Each peer first tries batch sizes and keeps its best. Then the programs take turns, so that a slow
moment of the machine meets all, and the best time of each counts. Where others use the machine
too, seconds of processors on one thread say more than those of the clock. Needs requirements.txt
beside this file.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "train"))

# Of each network: its file, its test data, radii in both norms, and settings of C&W as
# (c, confidence, learning rate). Success with these is neither none nor all. Black pixels of MNIST
# are far out in the space of C&W, and need a higher rate.
NETWORKS = {
    "sadl1": (
        "sadl1-mnist.onnx",
        "mnist/t10k-images-idx3-ubyte.gz",
        {"pgd": [0.08, 0.12], "pgd-l2": [1.0, 1.5]},
        [(0.5, 0.0, 0.1), (1.0, 5.0, 0.1)],
    ),
    "sadl2": (
        "sadl2-cifar10.onnx",
        "cifar-10:test",
        {"pgd": [0.003, 0.006], "pgd-l2": [0.1, 0.2]},
        [(0.01, 0.0, 0.01), (0.03, 5.0, 0.01)],
    ),
}
STEPS = 40
STEP = {"pgd": lambda epsilon: min(0.01, epsilon / 4), "pgd-l2": lambda epsilon: epsilon / 10}
CW_STEPS = 50
BATCHES = [16, 32, 64, 128]
PEERS = ["torchattacks", "foolbox"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--npcov", type=Path, default=ROOT / "target/release/npcov")
    parser.add_argument("--data", type=Path, default=ROOT / "data")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--timed", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip", choices=["agreement", "speed"])
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    options = parser.parse_args()

    # Read when PyTorch is loaded.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    subjects = [Subject(name, options) for name in options.networks]
    if options.skip != "agreement":
        agreement(subjects, options)
    if options.skip != "speed":
        speed(subjects, options)


class Subject:
    """A network for npcov and for PyTorch, with its test images."""

    def __init__(self, name, options):
        import torch

        file, data, self.radii, self.cw = NETWORKS[name]
        self.name, self.options = name, options
        self.model, self.data = options.models / file, options.data / data
        self.network = load(name, self.model)
        # Attacks see pixels from 0 to 1 for both.
        pixels, labels = read(options.data, data, options.inputs)
        self.images, self.labels = torch.tensor(pixels), torch.tensor(labels)
        self.is_correct = self.predict(self.images) == self.labels
        self.check_logits()

    def check_logits(self):
        """Both programs compute the same logits, or nothing can be compared."""
        import numpy as np
        import torch

        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out.npz"
            self.npcov("predict", len(self.images), output)
            ours = np.load(output)["logits"]
        with torch.no_grad():
            theirs = torch.cat([self.network(x) for x in self.images.split(100)]).numpy()
        apart = np.abs(ours - theirs).max()
        print(f"{self.name}: logits differ by at most {apart:.1e}", file=sys.stderr)
        if not apart < 1e-4:
            sys.exit(f"{self.name}: not the same network")

    def predict(self, images):
        import torch

        with torch.no_grad():
            return torch.cat([self.network(x).argmax(1) for x in images.split(100)])

    def npcov(self, command, inputs, output, *arguments):
        """Runs npcov; what it prints."""
        command = [self.options.npcov.resolve(), command, self.model, "--data", self.data]
        command += ["--divide", 255, "--limit", inputs, "--output", output]
        command += ["--threads", self.options.threads, "--format", "json", *arguments]
        done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def attack(self, inputs, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            return self.npcov("attack", inputs, Path(folder) / "out.npz", *arguments)

    def ours(self, *arguments):
        """Success and mean length of the change."""
        found = self.attack(len(self.images), *arguments)
        length = found["distance"]["euclidean"] if found["distance"] else float("nan")
        return found["success_rate"], length

    def theirs(self, attack, batch=100):
        """The same of a peer: of a function of images and labels to images and successes."""
        import torch

        points, successes = [], []
        for images, labels in zip(self.images.split(batch), self.labels.split(batch)):
            found, success = attack(images, labels)
            points.append(found.detach())
            away = self.predict(found) != labels
            successes.append(away if success is None else away & success)
        counted = torch.cat(successes) & self.is_correct
        moved = (torch.cat(points) - self.images).flatten(1).norm(dim=1)
        rate = counted.sum().item() / self.is_correct.sum().item()
        return rate, moved[counted].mean().item()


def load(name, path):
    """The network as a PyTorch module, with the weights of an ONNX file."""
    import onnx
    import torch
    from onnx import numpy_helper
    from torch import nn

    import architectures

    graph = onnx.load(path).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    layers = [node for node in graph.node if node.op_type in ("Conv", "Gemm")]
    network = getattr(architectures, name)()
    modules = [m for m in network.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    if len(layers) != len(modules):
        sys.exit(f"{path}: {len(layers)} layers with weights, not {len(modules)}")
    for node, module in zip(layers, modules):
        for name, parameter in zip(node.input[1:], (module.weight, module.bias)):
            parameter.data = torch.tensor(tensors[name])
            # Attacks differentiate by pixels alone.
            parameter.requires_grad = False
    return network.eval()


def read(folder, data, inputs):
    """Test images with pixels from 0 to 1, channels first, and labels."""
    import numpy as np

    if data.startswith("mnist"):
        images = gzip.open(folder / data).read()[16:]
        labels = gzip.open(folder / "mnist/t10k-labels-idx1-ubyte.gz").read()[8:]
        pixels = np.frombuffer(images, np.uint8).reshape(-1, 1, 28, 28)
        labels = np.frombuffer(labels, np.uint8)
    else:
        rows = np.fromfile(folder / "cifar-10/test_batch.bin", np.uint8).reshape(-1, 3073)
        pixels, labels = rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]
    return pixels[:inputs].astype(np.float32) / np.float32(255), labels[:inputs].astype(np.int64)


def agreement(subjects, options):
    print(f"Success and mean length, first {options.inputs} test images\n")
    print("| network | attack | npcov | torchattacks | foolbox | points apart |")
    print("|---|---|---|---|---|---|")
    for subject in subjects:
        for attack, arguments, peers in attacks(subject):
            if options.only in attack:
                ours = subject.ours(*arguments)
                make = {name: peers[name] for name in options.peers if name in peers}
                row(subject, attack, ours, {name: subject.theirs(make[name]()) for name in make})
    print()


def attacks(subject):
    """Descriptions of attacks, what they are for npcov, and for peers."""
    network = subject.network
    for method, radii in subject.radii.items():
        for epsilon in radii:
            step = STEP[method](epsilon)
            arguments = ["--method", method, "--epsilon", epsilon, "--step", step]
            settings = (network, method, epsilon, step)
            peers = {
                "torchattacks": partial(torchattacks_pgd, *settings),
                "foolbox": partial(foolbox_pgd, *settings),
            }
            yield f"{method}, epsilon {epsilon}", [*arguments, "--steps", STEPS], peers
    for c, confidence, rate in subject.cw:
        arguments = ["--method", "cw", "--rounds", 1, "--steps", CW_STEPS, "--factor", c]
        arguments += ["--learning-rate", rate, "--confidence", confidence]
        peers = {"foolbox": partial(foolbox_cw, network, c, confidence, rate)}
        # What torchattacks calls success does not ask for the confidence.
        if confidence == 0:
            peers["torchattacks"] = partial(torchattacks_cw, network, c, rate)
        yield f"cw, c {c}, confidence {confidence}", arguments, peers


def row(subject, attack, ours, theirs):
    def show(found):
        return f"{100 * found[0]:.1f} % ({found[1]:.3f})" if found else ""

    apart = max((abs(100 * (ours[0] - found[0])) for found in theirs.values()), default=0)
    cells = [subject.name, attack, show(ours), *(show(theirs.get(name)) for name in PEERS)]
    print("| " + " | ".join([*cells, f"{apart:.1f}"]) + " |", flush=True)


def torchattacks_pgd(network, method, epsilon, step, steps=STEPS):
    import torchattacks

    if method == "pgd":
        attack = torchattacks.PGD(network, eps=epsilon, alpha=step, steps=steps)
    else:
        attack = torchattacks.PGDL2(network, eps=epsilon, alpha=step, steps=steps)
    return lambda images, labels: (attack(images, labels), None)


def foolbox_pgd(network, method, epsilon, step, steps=STEPS):
    import foolbox

    kind = {"pgd": foolbox.attacks.LinfPGD, "pgd-l2": foolbox.attacks.L2PGD}[method]
    attack = kind(abs_stepsize=step, steps=steps)
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")

    def run(images, labels):
        criterion = foolbox.Misclassification(labels)
        return attack.run(model, images, criterion, epsilon=epsilon), None

    return run


def torchattacks_cw(network, c, rate):
    import torchattacks

    attack = torchattacks.CW(network, c=c, kappa=0, steps=CW_STEPS, lr=rate)
    return lambda images, labels: (attack(images, labels), None)


def foolbox_cw(network, c, confidence, rate):
    import foolbox

    attack = foolbox.attacks.L2CarliniWagnerAttack(
        binary_search_steps=1,
        steps=CW_STEPS,
        stepsize=rate,
        confidence=confidence,
        initial_const=c,
        # It would end all inputs of a batch when their sum rises, which it does at first.
        abort_early=False,
    )
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")

    def run(images, labels):
        found = attack.run(model, images, foolbox.Misclassification(labels))
        # A failure is an image of zeros.
        return found, found.flatten(1).abs().amax(1) > 0

    return run


def speed(subjects, options):
    print(f"pgd of {STEPS} steps on {options.timed} images, {options.threads} threads, ", end="")
    print(f"best of {options.rounds}\n")
    print("| network | program | s | CPU s | ratio | ratio of CPU s | batch |")
    print("|---|---|---|---|---|---|---|")
    for subject in subjects:
        epsilon = subject.radii["pgd"][0]
        step = STEP["pgd"](epsilon)
        images, labels = subject.images[: options.timed], subject.labels[: options.timed]
        makers = {"torchattacks": torchattacks_pgd, "foolbox": foolbox_pgd}
        arguments = ["--epsilon", epsilon, "--step", step, "--steps", STEPS]
        programs = {"npcov": partial(subject.attack, options.timed, *arguments)}
        batches = {"npcov": ""}
        for name in options.peers:
            short = makers[name](subject.network, "pgd", epsilon, step, steps=4)
            trials = {batch: timed(batched, short, images, labels, batch) for batch in BATCHES}
            batches[name] = min(trials, key=trials.get)
            attack = makers[name](subject.network, "pgd", epsilon, step)
            programs[name] = partial(batched, attack, images, labels, batches[name])
        times = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, run in programs.items():
                times[name].append(timed(run))
        best = {name: [min(column) for column in zip(*times[name])] for name in times}
        for name, (wall, processor) in best.items():
            ratios = [mine / ours for mine, ours in zip((wall, processor), best["npcov"])]
            cells = [subject.name, name, f"{wall:.2f}", f"{processor:.2f}"]
            cells += [f"{ratio:.2f}" for ratio in ratios] + [str(batches[name])]
            print("| " + " | ".join(cells) + " |", flush=True)


def batched(attack, images, labels, batch):
    for some, their in zip(images.split(batch), labels.split(batch)):
        attack(some, their)


def timed(run, *arguments):
    """Seconds, and seconds of processors, of this program and those that it starts."""
    wall, processor = time.perf_counter(), processor_seconds()
    run(*arguments)
    return time.perf_counter() - wall, processor_seconds() - processor


def processor_seconds():
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
