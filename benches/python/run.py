"""What Python costs beside the command line: `make bench-python MODEL=file.onnx`.

Measures CIFAR-10's first test images by a graph of its first training images, once with the command and once with the
module, on one thread, in turns. CPU time is that of the whole process, starting it included; memory is its peak. The
images are in memory as an array when the module measures them, and in a file when the command does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = """
import sys, numpy as np, npcov
graph, data, inputs = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
x, y = data["x"], data["y"]
coverage = npcov.DecisionGraph(graph, threads=1).cover(x[:inputs], y[:inputs], name="suite", progress=False)
coverage.report()
"""


def measured(command: list[str]) -> tuple[float, float]:
    """CPU time in seconds and peak memory in MB of a process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {command}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--data", default="data/cifar-10")
    parser.add_argument("--train", type=int, default=500)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        graph, suite = Path(folder, "graph.npcov"), Path(folder, "suite.npz")
        test = Path(args.data, "test_batch.bin")
        records = np.fromfile(test, np.uint8, args.inputs * 3073).reshape(-1, 3073)
        np.savez(suite, x=records[:, 1:].reshape(-1, 3, 32, 32), y=records[:, 0].astype(np.int64))
        build = ["build", args.model, "--data", f"{args.data}:train", "--divide", "255"]
        command = [args.npcov, *build, "--limit", str(args.train), "--criteria", "snpc,anpc,nc,kmnc", "-o", str(graph)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cover = [args.npcov, "cover", str(graph), "--data", str(suite), "--name", "suite", "--threads", "1"]
        module = [sys.executable, "-c", MODULE, str(graph), str(suite), str(args.inputs)]
        found: dict[str, list[tuple[float, float]]] = {"command": [], "module": []}
        for _ in range(args.rounds):
            for name, command in (("command", cover), ("module", module)):
                found[name].append(measured(command))
                print(name, found[name][-1], file=sys.stderr)
        best = {name: (min(t for t, _ in runs), max(m for _, m in runs)) for name, runs in found.items()}
        ratio = best["module"][0] / best["command"][0]
        print(json.dumps({"inputs": args.inputs, "cpu_seconds_and_mb": best, "ratio": round(ratio, 4)}, indent=2))


if __name__ == "__main__":
    main()
