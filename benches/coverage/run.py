#!/usr/bin/env python3
"""What building a decision graph and measuring with it cost, beside extracting paths.

    benches/coverage/run.py --npcov target/release/npcov --model vgg16.onnx \
        --train data/cifar-10:train --suite data/cifar-10:test \
        [--sizes 1000 10000 50000] [--measured 1000] [--options "--alpha 0.9 ..."]
        [--keep graphs]

Builds a graph from each number of training inputs and prints time and peak
memory, and how much of the time relevances took: until the last shard was
written. Then measures inputs of the suite against the largest graph, by SNPC
and ANPC, by all criteria but those that compare inputs with all training
traces, and by all, and extracts the paths of the same inputs without
measuring, in turns; the best time of each counts.
"""

import argparse
import json
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

SHARD = 512

# These look at all training inputs of a class, or all of them.
SURPRISE = {"lsc", "dsc", "mdsc"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--graph", help="measure with this graph instead of building any")
    parser.add_argument("--keep", type=Path, help="a folder for the graphs, which then stay")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10000, 50000])
    parser.add_argument("--measured", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--options", default="--divide 255 --alpha 0.9 --clusters 7 --beta 0.9")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="target") as folder:
        graph = options.graph
        if graph is None:
            print("| inputs | seconds | relevances | peak memory | graph |")
            print("|---|---|---|---|---|")
            for size in options.sizes:
                graph = (options.keep or Path(folder)) / f"graph-{size}.npcov"
                print(build(options, size, graph), flush=True)
            print()
        compare(options, graph, folder)


def build(options, size, graph):
    command = [options.npcov, "build", options.model, "--data", options.train, "--limit", str(size)]
    command += ["-o", str(graph)] + shlex.split(options.options)
    last = Path(f"{graph}.parts") / f"paths-{(size - 1) // SHARD:06}.safetensors"
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    extracted = None
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if extracted is None and last.exists():
            extracted = time.monotonic() - start
        time.sleep(0.02)
    total = time.monotonic() - start
    if status != 0:
        raise SystemExit("npcov build failed")
    share = f"{extracted / total:.1%}" if extracted else "-"
    size_on_disk = graph.stat().st_size / 1e6
    memory = usage.ru_maxrss / 1024
    return f"| {size:,} | {total:.1f} | {share} | {memory:.0f} MiB | {size_on_disk:.0f} MB |"


def compare(options, graph, folder):
    shared = ["--limit", str(options.measured)]
    extract = [options.npcov, "explain", options.model, "--data", options.suite]
    extract += [word for word in shlex.split(options.options)]
    # Clustering is no part of an explanation.
    for flag in ("--clusters", "--beta"):
        if flag in extract:
            at = extract.index(flag)
            del extract[at : at + 2]
    extract += shared + ["--output", str(Path(folder) / "paths.npz")]
    cover = [options.npcov, "cover", str(graph), "--data", options.suite]
    cover += shared + ["-o", str(Path(folder) / "state.npcov"), "--model", options.model]
    inspected = subprocess.run(
        [options.npcov, "inspect", str(graph), "--format", "json"], check=True, stdout=subprocess.PIPE
    )
    criteria = json.loads(inspected.stdout)["criteria"]
    cheap = [name for name in criteria if name.split(":")[0] not in SURPRISE]
    measured = {
        "with SNPC and ANPC": ["snpc", "anpc"],
        f"with {len(cheap)} criteria": cheap,
        f"with all {len(criteria)}": criteria,
    }
    commands = {"paths": extract}
    for name, names in measured.items():
        commands[name] = cover + ["--criteria", ",".join(names)]
    best = {}
    for _ in range(options.rounds):
        for name, command in commands.items():
            start = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds = time.monotonic() - start
            best[name] = min(seconds, best.get(name, seconds))
    print(f"| {options.measured:,} inputs | seconds | ratio |")
    print("|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.1f} | {seconds / best['paths']:.2f} |")


if __name__ == "__main__":
    main()
