"""What an explanation costs in ONNX Runtime beside npcov's own engine: `make bench-python MODEL=file.onnx`.

Explains CIFAR-10's first test images on two threads, each engine in a process of its own. CPU time is per input: that of
many inputs less that of a few, so that preparing the program does not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

FEW = 32


def spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(engine: str, model: str, data: str, inputs: int) -> None:
    import numpy as np

    import npcov

    records = np.fromfile(f"{data}/test_batch.bin", np.uint8, inputs * 3073).reshape(-1, 3073)
    x = records[:, 1:].reshape(-1, 3, 32, 32)
    opened = npcov.Model(model, divide=255, engine=engine, threads=2)
    opened.explain(x[:FEW], progress=False)
    start = spent()
    opened.explain(x[:FEW], progress=False)
    few = spent()
    opened.explain(x, progress=False)
    cpu = ((spent() - few) - (few - start)) / (inputs - FEW)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"engine": engine.split("@")[0], "cpu_ms": round(1000 * cpu, 2), "peak_mb": round(peak)}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", default="data/cifar-10")
    parser.add_argument("--inputs", type=int, default=160)
    parser.add_argument("--engine", action="append")
    parser.add_argument("--alone", action="store_true", help="measure the engine in this process")
    args = parser.parse_args()
    engines = args.engine or ["native", "onnxruntime"]
    if args.alone:
        return measure(engines[0], args.model, args.data, args.inputs)
    for engine in engines:
        options = ["--model", args.model, "--data", args.data, "--inputs", str(args.inputs)]
        subprocess.run([sys.executable, __file__, *options, "--engine", engine, "--alone"], check=True)


if __name__ == "__main__":
    main()
