#!/usr/bin/env python3
"""What an engine costs: the same graph by one process with two threads, and by two workers, in turns.

    .venv-scale/bin/python benches/scale/run.py --model vgg16-cifar10.onnx --data data/cifar-10:train --limit 20000

Wall time and CPU time of the process and all that it started, without the start of the cluster; the bytes of all graphs
must be equal. `--verb cover` measures a suite with the graph. `--warm` inputs are run before, so that workers have
opened the model."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import npcov


def cpu() -> float:
    """CPU seconds of this process and all that it started and that still run."""
    spent = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
            spent += times.user + times.system
        except psutil.Error:
            pass
    return spent


class Timed:
    """Wall and CPU seconds of some work."""

    def __enter__(self) -> Timed:
        self.wall, self.cpu = time.monotonic(), cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.monotonic() - self.wall, cpu() - self.cpu


def start(engine: str) -> tuple[Any, float]:
    """The module of an engine with a cluster of two workers, and the seconds that took."""
    begin = time.monotonic()
    if engine == "ray":
        import npcov.ray
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        return npcov.ray, time.monotonic() - begin
    if engine == "dask":
        import distributed
        import npcov.dask

        start.client = distributed.Client(  # type: ignore[attr-defined]
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        )
        return npcov.dask, time.monotonic() - begin
    sys.exit(f"no engine `{engine}`")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, help="as `npcov build --data` takes it")
    parser.add_argument("--divide", type=float, default=255)
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--warm", type=int, default=64)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", nargs="+", default=["dask", "ray"])
    parser.add_argument("--clustering", default="kmeans")
    args = parser.parse_args()
    model = npcov.Model(args.model, divide=args.divide)
    options = {"clustering": args.clustering, "limit": args.limit}
    modules = {}
    for engine in args.engines:
        modules[engine], seconds = start(engine)
        print(f"{engine}: started in {seconds:.1f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, module in modules.items():
            warm = {**options, "limit": args.warm}
            module.build(model, args.data, output=f"{folder}/warm-{name}.npcov", shards=2, **warm)
        digests, walls = set(), {}
        for turn in range(args.rounds):
            for name in ["alone", *modules]:
                output = Path(folder) / f"{name}-{turn}.npcov"
                events: list[tuple[float, str]] = []
                watch = lambda event, _: events.append((time.monotonic(), event))  # noqa: E731
                begin = time.monotonic()
                with Timed() as spent:
                    if name == "alone":
                        model.build(args.data, output=output, threads=2, progress=watch, **options)
                    else:
                        more = {} if args.shards is None else {"shards": args.shards}
                        modules[name].build(model, args.data, output=output, progress=watch, **more, **options)
                joined = next((at - begin for at, event in events if event == "clustering"), spent.wall)
                digests.add(hashlib.sha256(output.read_bytes()).hexdigest())
                size = os.path.getsize(output)
                output.unlink()
                walls.setdefault(name, []).append((spent.wall, spent.cpu, joined))
                print(
                    f"{name}: {spent.wall:.2f} s wall, {spent.cpu:.2f} s CPU, "
                    f"{joined:.2f} s until all inputs were run, {size} bytes",
                    flush=True,
                )
    if len(digests) != 1:
        sys.exit("graphs differ")
    alone = np.median(np.array(walls["alone"]), axis=0)
    for name in modules:
        ratio = np.median(np.array(walls[name]), axis=0) / alone
        print(f"{name} beside one process: wall {ratio[0]:.3f}, CPU {ratio[1]:.3f}, until all were run {ratio[2]:.3f}")


if __name__ == "__main__":
    main()
