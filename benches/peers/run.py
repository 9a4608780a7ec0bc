#!/usr/bin/env python3
"""Compares the forward pass of npcov with its peers (`make bench-peers`).

    benches/peers/run.py [--threads 2] [--rounds 5] [--network NAME ...]

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
SETTINGS = [f"{batch}:{mode}" for mode in ("inner", "outer") for batch in (1, 8, 16, 32, 64, 128)]
PEERS = ["onnxruntime", "torch", "rten", "tract"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", nargs="*", default=list(networks.NETWORKS))
    parser.add_argument("--peer", nargs="*", default=PEERS)
    parser.add_argument("--without-npcov", action="store_true")
    options = parser.parse_args()

    build(options)
    folder = ROOT / "target/bench-peers"
    folder.mkdir(parents=True, exist_ok=True)
    peers = options.peer + ([] if options.without_npcov else ["npcov"])
    print(f"{options.threads} threads, best of {options.rounds} rounds of 3\n")
    print("| network | runtime | ms per image | ratio | setting |")
    print("|---|---|---|---|---|")
    for name in options.network:
        model = folder / f"{name}.onnx"
        networks.export(name, model)
        for row in compare(name, model, peers, options):
            print(row, flush=True)


def build(options):
    manifest = HERE / "Cargo.toml"
    cargo("build", "--release", "--manifest-path", manifest, "--target-dir", HERE / "target")
    if not options.without_npcov:
        cargo("build", "--release", "-p", "npcov", "--example", "forward_time")


def cargo(*arguments):
    subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def compare(name, model, peers, options):
    inputs = networks.NETWORKS[name][2]
    settings = {}
    for peer in peers:
        # npcov has one way to share out the work; the user does not choose.
        tried = [] if peer == "npcov" else SETTINGS
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
    if peer == "npcov":
        command = ["cargo", "run", "--release", "--quiet", "-p", "npcov"]
        command += ["--example", "forward_time", "--"]
    elif peer in ("rten", "tract"):
        command = [HERE / "target/release/peers", peer]
    else:
        command = [sys.executable, HERE / "python_peer.py", peer]
    command += [model, str(inputs), str(threads), str(repeats), *settings]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    best = {}
    for line in done.stdout.split("\n"):
        if line:
            *setting, seconds = line.split()
            setting = " ".join(setting)
            best[setting] = min(best.get(setting, float("inf")), float(seconds))
    return best


if __name__ == "__main__":
    main()
