#!/usr/bin/env python3
"""Compares npcov with its peers (`make bench-peers`): the forward pass, and relevances.

    benches/peers/run.py [forward|relevance ...] [--threads 2] [--rounds 5] [--network NAME ...]
        [--peer NAME ...]

Every peer first tries all batch sizes, with its threads inside one batch and
with one batch per thread, and keeps its own best setting. Then the peers take
turns, so that a slow moment of the machine meets all of them, and the best
time counts. Needs requirements-fixtures.txt and cargo.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import networks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BATCHES = {"forward": (1, 8, 16, 32, 64, 128), "relevance": (8, 32, 128)}
# Of images of 224x224.
FULL_BATCHES = {"forward": (1, 2, 4, 8, 16), "relevance": (4, 8)}
# The first peer of a task is what ratios are to.
PEERS = {
    "forward": ["onnxruntime", "torch", "rten", "tract", "npcov forward"],
    "relevance": [
        "torch-alpha-beta",
        "zennit-alpha2-beta1",
        "npcov alpha-beta:0.5",
        "torch-zplus",
        "zennit-epsilon-plus",
        "npcov zplus",
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", nargs="*", default=list(PEERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", nargs="*", default=list(networks.NETWORKS))
    parser.add_argument("--peer", nargs="*", help="only these besides npcov; the first of a task always")
    parser.add_argument("--inputs", type=int, help="inputs of a run, for images of 224x224")
    options = parser.parse_args()

    build(options.peer is None or {"rten", "tract"} & set(options.peer))
    folder = ROOT / "target/bench-peers"
    folder.mkdir(parents=True, exist_ok=True)
    for task in options.task:
        print(f"{task}: {options.threads} threads, best of {options.rounds} rounds of 3\n")
        print("| network | program | ms per image | ratio | setting |")
        print("|---|---|---|---|---|")
        for name in options.network:
            # The relevance written by hand knows no groups, and zennit's composites no attention.
            if task == "relevance" and name in ("mobilenet", "vit-s16"):
                continue
            model = folder / f"{name}.onnx"
            networks.export(name, model)
            # Relevances take a few times as long.
            inputs = networks.NETWORKS[name][2] // (2 if task == "relevance" else 1)
            if name in networks.FULL and options.inputs:
                inputs = options.inputs
            for row in compare(name, model, inputs, task, options):
                print(row, flush=True)
        print()


def build(all_peers):
    if all_peers:
        manifest = HERE / "Cargo.toml"
        cargo("build", "--release", "--manifest-path", manifest, "--target-dir", HERE / "target")
    cargo("build", "--release", "-p", "npcov", "--example", "program_time")


def cargo(*arguments):
    subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def compare(name, model, inputs, task, options):
    first, *others = PEERS[task]
    batches = BATCHES[task]
    if name in networks.FULL:
        batches = FULL_BATCHES[task]
        if task == "relevance":
            # The relevance written by hand knows plain rows of layers only.
            first, others = "zennit-alpha2-beta1", ["npcov alpha-beta:0.5"]
    chosen = lambda peer: options.peer is None or peer in options.peer or peer.startswith("npcov ")
    peers = [first, *filter(chosen, others)]
    every = [f"{batch}:{mode}" for mode in ("inner", "outer") for batch in batches]
    settings = {}
    for peer in peers:
        # npcov has one way to share out the work; the user does not choose.
        tried = [] if peer.startswith("npcov") else every
        times = run(peer, model, inputs, options.threads, 2, tried)
        settings[peer] = min(times, key=times.get)
        print(f"{name} {peer}: best setting {settings[peer]}", file=sys.stderr)

    best = dict.fromkeys(peers, float("inf"))
    for _ in range(options.rounds):
        for peer in peers:
            setting = settings[peer]
            chosen = [setting] if setting else []
            times = run(peer, model, inputs, options.threads, 3, chosen)
            best[peer] = min(best[peer], times[setting])

    for peer in peers:
        ms = 1000 * best[peer] / inputs
        ratio = best[peer] / best[peers[0]]
        yield f"| {name} | {peer} | {ms:.3f} | {ratio:.2f} | {settings[peer]} |"


def run(peer, model, inputs, threads, repeats, settings):
    """The best seconds of every setting; npcov's setting is the empty string."""
    arguments = [model, str(inputs), str(threads), str(repeats), *settings]
    if peer.startswith("npcov "):
        command = ["cargo", "run", "--release", "--quiet", "-p", "npcov"]
        command += ["--example", "program_time", "--"]
        arguments.insert(1, peer.removeprefix("npcov "))
    elif peer in ("rten", "tract"):
        command = [HERE / "target/release/peers", peer]
    elif peer.startswith(("zennit-", "torch-")):
        command = [sys.executable, HERE / "relevance_peer.py", peer]
    else:
        command = [sys.executable, HERE / "python_peer.py", peer]
    done = subprocess.run([*command, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    best = {}
    for line in done.stdout.split("\n"):
        if line:
            *setting, seconds = line.split()
            setting = " ".join(setting)
            best[setting] = min(best.get(setting, float("inf")), float(seconds))
    return best


if __name__ == "__main__":
    main()
