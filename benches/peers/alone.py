#!/usr/bin/env python3
"""One image of 224x224 alone, and the memory of many: what `npcov explain` takes.

    benches/peers/alone.py [--npcov target/release/npcov] [--threads 2] [--rounds 3] [--inputs 32]
        [--network NAME ...]

Prints, for each network: the seconds of `npcov explain MODEL --index 0` as a whole process, with
reading the model and the data; the seconds that zennit takes for one image once its network is in
memory; and the peak memory of explaining some images. Best of several rounds in turns. Needs
requirements-fixtures.txt.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import networks
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from peak import peak  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--network", nargs="*", default=list(networks.FULL))
    options = parser.parse_args()
    print("| network | one image, npcov with loading | zennit without | peak memory |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        shape = (options.inputs, 3, 224, 224)
        np.savez(data, x=np.random.default_rng(0).integers(0, 256, shape, np.uint8))
        for name in options.network:
            model = Path(folder) / f"{name}.onnx"
            networks.export(name, model)
            print(row(name, model, data, options), flush=True)
            model.unlink()


def row(name, model, data, options):
    command = [options.npcov, "explain", model, "--data", data, "--divide", "255"]
    command += ["--threads", str(options.threads)]
    ours, theirs = float("inf"), float("inf")
    for _ in range(options.rounds):
        start = time.perf_counter()
        one = [*command, "--index", "0"]
        done = subprocess.run(one, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return f"| {name} | {done.stderr.strip().splitlines()[-1]} | | |"
        ours = min(ours, time.perf_counter() - start)
        theirs = min(theirs, zennit(model, options.threads))
    output = model.with_suffix(".npz")
    kibibytes = peak([*command, "--input-relevance", "--output", output])
    return f"| {name} | {ours:.2f} s | {theirs:.2f} s | {kibibytes / 1024:.0f} MiB |"


def zennit(model, threads):
    """The best seconds of three images, one at a time."""
    command = [sys.executable, HERE / "relevance_peer.py", "zennit-alpha2-beta1", model]
    command += ["1", str(threads), "3", "1:inner"]
    done = subprocess.run(command, capture_output=True, text=True)
    times = [float(line.split()[-1]) for line in done.stdout.splitlines()]
    return min(times, default=float("nan"))


if __name__ == "__main__":
    main()
