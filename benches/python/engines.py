"""What an explanation costs in ONNX Runtime beside npcov's own engine: `make bench-python MODEL=file.onnx`.

Explains CIFAR-10's first test images, or random inputs of the model's shape, on two threads, each engine in processes of
its own, in turns; the best of the rounds counts. Times are per input: that of many inputs less that of a few, so that
preparing the program does not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time


def spent() -> tuple[float, float]:
    """CPU time and clock, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, time.monotonic()


def measure(args: argparse.Namespace, engine: str) -> None:
    import numpy as np

    import npcov

    opened = npcov.Model(args.model, divide=255, engine=engine, threads=2)
    if args.random:
        x = np.random.default_rng(0).integers(0, 256, (args.inputs, *opened.input_shape), np.uint8)
    else:
        records = np.fromfile(f"{args.data}/test_batch.bin", np.uint8, args.inputs * 3073).reshape(-1, 3073)
        x = records[:, 1:].reshape(-1, 3, 32, 32)
    times = [spent()]
    for inputs in (args.few, args.few, args.inputs):
        opened.explain(x[:inputs], progress=False)
        times.append(spent())
    cpu, clock = (
        1000 * ((times[3][i] - times[2][i]) - (times[2][i] - times[1][i])) / (args.inputs - args.few) for i in (0, 1)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_ms": cpu, "clock_ms": clock, "peak_mb": round(peak)}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", default="data/cifar-10")
    parser.add_argument("--random", action="store_true", help="random inputs instead of CIFAR-10")
    parser.add_argument("--inputs", type=int, default=160)
    parser.add_argument("--few", type=int, default=32, help="inputs whose time is taken off")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--alone", metavar="ENGINE", help="measure this engine in this process")
    args = parser.parse_args()
    if args.alone:
        return measure(args, args.alone)
    found: dict[str, list[dict[str, float]]] = {"native": [], "onnxruntime": []}
    for _ in range(args.rounds):
        for engine, runs in found.items():
            command = [sys.executable, __file__, *sys.argv[1:], "--alone", engine]
            runs.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    for engine, runs in found.items():
        best = {key: round(min(run[key] for run in runs), 2) for key in runs[0]}
        print(json.dumps({"engine": engine, **best}))


if __name__ == "__main__":
    main()
