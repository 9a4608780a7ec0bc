#!/usr/bin/env python3
"""Compares distance-based surprise adequacy (DSA) with dnn-tip's.

    benches/criteria/dsa.py [--training 50000] [--suite 1000] [--neurons 512] [--threads 2]
                            [--rounds 3] [--badge 10]

The traces are made up: ten classes around means of their own, rectified as
activations are. Both programs get the same ones, in float32. They take turns, so
that a slow moment of the machine meets both, and the best time counts. npcov's
includes what it learns from the training traces; reading the file is not
counted for either.

dnn-tip ignores the threads that it is asked for and always starts five. Here
they are as many as --threads says, by way of the class that it makes them with.
--badge is its `badge_size`: how many inputs it compares at a time. Its memory is
the threads times the badge times all traces. Needs requirements.txt beside this
file, and cargo.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--training", type=int, default=50_000)
    parser.add_argument("--suite", type=int, default=1000)
    parser.add_argument("--neurons", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--badge", type=int, default=10)
    options = parser.parse_args()

    # Read when NumPy's BLAS is loaded.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    program = build()
    import numpy as np

    rng = np.random.default_rng(0)
    means = rng.normal(0.3, 0.7, (options.classes, options.neurons))
    training = traces(rng, means, options.training)
    suite = traces(rng, means, options.suite)
    theirs, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        file, result = Path(folder) / "traces", Path(folder) / "scores"
        write(training, suite, file)
        for _ in range(options.rounds):
            theirs.append(dnn_tip(training, suite, options))
            command = [program, file, result, str(options.threads)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            ours.append(float(done.stdout))
        scores = np.fromfile(result, "<f8")
    apart = np.max(np.abs(scores - theirs[0][1]) / theirs[0][1])
    best = min(seconds for seconds, _ in theirs)
    print(f"{options.threads} threads, best of {options.rounds} rounds\n")
    print("| training | suite | neurons | dnn-tip s | npcov s | ratio | largest difference |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {options.training} | {options.suite} | {options.neurons} | {best:.3f} "
        f"| {min(ours):.4f} | {best / min(ours):.1f} | {apart:.1e} |"
    )
    # dnn-tip computes in float32.
    if apart > 1e-3:
        sys.exit("the adequacies differ")


def build():
    """The path of the timing program."""
    command = ["cargo", "build", "--release", "-p", "npcov-criteria", "--example", "dsa_time"]
    command.append("--message-format=json-render-diagnostics")
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(m["executable"] for m in messages if m.get("executable"))


def traces(rng, means, count):
    """Traces and their classes."""
    import numpy as np

    label = rng.integers(0, len(means), count)
    noise = rng.standard_normal((count, means.shape[1]), np.float32)
    return np.maximum(means[label].astype(np.float32) + noise, 0), label


def write(training, suite, path):
    """Traces in a row, training inputs and inputs of the suite as u64; then of both the
    classes as u32 and the traces as f32."""
    import numpy as np

    with open(path, "wb") as file:
        lengths = [training[0].shape[1], len(training[0]), len(suite[0])]
        file.write(np.array(lengths, "<u8").tobytes())
        for rows, label in (training, suite):
            file.write(label.astype("<u4").tobytes())
            file.write(rows.astype("<f4").tobytes())


def dnn_tip(training, suite, options):
    """Seconds and adequacies."""
    import functools
    import warnings
    from concurrent.futures import ThreadPoolExecutor

    import dnn_tip.surprise as surprise

    def pool(max_workers):
        return ThreadPoolExecutor(max_workers=options.threads)

    surprise.ThreadPoolExecutor = pool
    surprise.tqdm.tqdm = functools.partial(surprise.tqdm.tqdm, disable=True)
    warnings.simplefilter("ignore", UserWarning)
    start = time.perf_counter()
    dsa = surprise.DSA(*training, badge_size=options.badge)
    scores = dsa(*suite, num_threads=options.threads)
    return time.perf_counter() - start, scores


if __name__ == "__main__":
    main()
