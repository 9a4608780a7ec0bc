#!/usr/bin/env python3
"""Compares npcov with its peers (`make bench-peers`): the forward pass, and relevances.

    benches/peers/run.py [forward|relevance ...] [--threads 2] [--rounds 5] [--network NAME ...]
        [--peer NAME ...]

Every peer first tries all batch sizes, with its threads inside one batch and
with one batch per thread, and keeps its own best setting. Then the peers take
turns, so that a slow moment of the machine meets all of them, and the best
time counts. CPU time is that of three repeats less that of one, so that loading
does not count: of use where other work slows clocks on the wall. With threads
inside of a batch, it contains the time in which some wait for others. Peak
memory is that of the whole process. Needs requirements-fixtures.txt and cargo.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import networks

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from peak import peak  # noqa: E402

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
        print("| network | program | ms per image | ratio | CPU ms per image | ratio | peak MB | setting |")
        print("|---|---|---|---|---|---|---|---|")
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
        times, _ = run(peer, model, inputs, options.threads, 2, tried)
        settings[peer] = min(times, key=times.get)
        print(f"{name} {peer}: best setting {settings[peer]}", file=sys.stderr)

    best = dict.fromkeys(peers, float("inf"))
    cpu = dict.fromkeys(peers, float("inf"))
    for _ in range(options.rounds):
        for peer in peers:
            setting = settings[peer]
            chosen = [setting] if setting else []
            times, one = run(peer, model, inputs, options.threads, 1, chosen)
            more, three = run(peer, model, inputs, options.threads, 3, chosen)
            best[peer] = min(best[peer], times[setting], more[setting])
            cpu[peer] = min(cpu[peer], (three - one) / 2)

    ms = lambda seconds: f"{1000 * seconds / inputs:.3f}"
    for peer in peers:
        ratios = [f"{times[peer] / times[first]:.2f}" for times in (best, cpu)]
        columns = [name, peer, ms(best[peer]), ratios[0], ms(cpu[peer]), ratios[1]]
        chosen = [settings[peer]] if settings[peer] else []
        kibibytes = peak(command(peer, model, inputs, options.threads, 1, chosen))
        columns += [f"{kibibytes * 1024 / 1e6:.0f}", settings[peer]]
        yield f"| {' | '.join(columns)} |"


def run(peer, model, inputs, threads, repeats, settings):
    """The best seconds of every setting, npcov's being the empty string, and CPU seconds of all."""
    words = command(peer, model, inputs, threads, repeats, settings)
    child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), words)
    best = {}
    for line in lines.split("\n"):
        if line:
            *setting, seconds = line.split()
            setting = " ".join(setting)
            best[setting] = min(best.get(setting, float("inf")), float(seconds))
    return best, usage.ru_utime + usage.ru_stime


def command(peer, model, inputs, threads, repeats, settings):
    """What runs a peer."""
    arguments = [model, str(inputs), str(threads), str(repeats), *settings]
    if peer.startswith("npcov "):
        arguments.insert(1, peer.removeprefix("npcov "))
        return [ROOT / "target/release/examples/program_time", *arguments]
    if peer in ("rten", "tract"):
        return [HERE / "target/release/peers", peer, *arguments]
    script = "relevance_peer.py" if peer.startswith(("zennit-", "torch-")) else "python_peer.py"
    return [sys.executable, HERE / script, peer, *arguments]


if __name__ == "__main__":
    main()
