#!/usr/bin/env python3
"""What an engine costs: the same graph by one process with two threads, and by two workers, in turns.

    .venv-scale/bin/python benches/scale/run.py --model vgg16-cifar10.onnx --data data/cifar-10:train --limit 20000
    .venv-scale/bin/python benches/scale/run.py --model vgg16-cifar10.onnx --data data/cifar-10:test --verb cover
    .venv-scale/bin/python benches/scale/run.py --model fixtures/mlp-matlab.onnx --memory 100000 1000000

Wall time and CPU time of the process and all that it started, without the start of the cluster; the bytes of all graphs
must be equal. `--verb cover` measures a suite with a graph of the first `--graph` inputs of the same data. `--warm`
inputs are run before, so that workers have opened the model.

Beside that, for each engine: the most memory that the driver held (RSS) while parts came in and while it joined them,
and the bytes that came back for each input, beside those that are to be expected of the model's layers. `--memory`
gives nothing else, for so many rows of noise that workers make themselves; each number of rows has a driver and a
cluster of its own, with `--labels` also labels. It needs Dask, whose scheduler runs beside the driver and is weighed by
itself. With `--verb cover` so many rows are the suite, and the graph is that of the first `--graph` rows."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import npcov
from npcov._distributed import driver
from npcov._distributed.worker import Made, Seen


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


class Traffic:
    """Bytes that came from workers to the driver, and rows that the engine handed to workers to look at."""

    def __init__(self) -> None:
        self.back = self.rows = 0
        results = driver._Run._results

        def counted(run: Any, *given: Any) -> Iterator[tuple[int, Any]]:
            for place, result in results(run, *given):
                if isinstance(result, Made):
                    self.back += sum(len(content or b"") for content in result.files.values())
                elif isinstance(result, Seen):
                    self.rows += result.traffic
                yield place, result

        driver._Run._results = counted  # type: ignore[method-assign]


def expected(model: npcov.Model) -> float:
    """Bytes that a part has for an input: activation, profile and path of each neuron, logits, class."""
    words = sum(-(-neurons // 64) for _, neurons in model.layers)
    return sum(5 * neurons for _, neurons in model.layers) + 8 * words + 4 * model.classes + 4


class Memory:
    """The most that this process holds, in MB, from one mark to the next."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._phase, self._is_over = "before", threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def mark(self, phase: str) -> None:
        self._sample()
        self._phase = phase

    def _sample(self) -> None:
        held = psutil.Process().memory_info().rss / 1e6
        self.peaks[self._phase] = max(held, self.peaks.get(self._phase, 0))

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            self._sample()

    def stop(self) -> None:
        self._sample()
        self._is_over.set()
        self._thread.join()

    def __str__(self) -> str:
        return ", ".join(f"{phase} {peak:.0f} MB" for phase, peak in self.peaks.items())


def noise(rows: int) -> Any:
    """Rows that workers make themselves: images of the fixtures, each with other noise."""
    import dask.array as da

    fixture = Path(__file__).resolve().parents[2] / "fixtures/fashion-1000.npz"
    chunk = 1 << 14

    def made(block_info: Any = None) -> Any:
        start, end = block_info[None]["array-location"][0]
        with np.load(fixture) as held:
            x = held["x"].reshape(-1, 784)
        random = np.random.default_rng(start)
        some = x[np.arange(start, end) % len(x)]
        return some ^ random.integers(0, 8, some.shape, dtype=np.uint8)

    sizes = tuple(min(chunk, rows - start) for start in range(0, rows, chunk))
    return da.map_blocks(made, chunks=(sizes, (784,)), dtype=np.uint8)


def labels(rows: int) -> Any:
    """Labels of so many rows, made by workers as well."""
    import dask.array as da

    return da.arange(rows, chunks=1 << 14, dtype=np.int64) % 10


CLUSTER = """
import sys, distributed
with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def apart() -> Iterator[psutil.Process]:
    """Dask's scheduler and two workers in processes of their own, as in a cluster. Gives that of the scheduler."""
    import distributed

    with subprocess.Popen([sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        with distributed.Client(process.stdout.readline().decode().strip()):
            yield psutil.Process(process.pid)
        process.stdin.close()


def weigh(args: argparse.Namespace) -> None:
    """Memory of the driver and traffic for one number of rows."""
    with apart() as scheduler:
        weigh_beside(scheduler, args)


def weigh_beside(scheduler: psutil.Process, args: argparse.Namespace) -> None:
    import npcov.dask

    rows = args.memory[0]
    model = npcov.Model(args.model, divide=args.divide)
    traffic, memory, before = Traffic(), Memory(), scheduler.memory_info().rss

    def data(rows: int) -> tuple[Any, Any]:
        return noise(rows), labels(rows) if args.labels else None

    def watch(event: str, _: int) -> None:
        if event == "clustering":
            memory.mark("join")

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "graph.npcov"
        options = {"clustering": args.clustering, "criteria": "snpc,kmnc", "restarts": 1}
        learnt = args.graph if args.verb == "cover" else rows
        begin = time.monotonic()
        memory.mark("parts")
        graph = npcov.dask.build(model, *data(learnt), output=output, progress=watch, **options)
        found = f"parts {traffic.back / learnt:.1f} bytes a row ({expected(model):.0f} expected), "
        found += f"graph {os.path.getsize(output) / learnt:.1f}"
        if args.verb == "cover":
            traffic.back = 0
            memory.mark("cover")
            made = {"name": "suite", "output": Path(folder) / "state.npcov", "criteria": ["snpc", "nc"]}
            npcov.dask.cover(graph, *data(rows), **made)
            found = f"coverage {traffic.back / rows:.1f} bytes a row"
        memory.stop()
    grown = scheduler.memory_info().rss - before
    found += f"; scheduler {before / 1e6:.0f} MB and {grown / 1e6:.0f} MB more"
    print(f"{rows} rows: {memory}; {found}; {time.monotonic() - begin:.0f} s", flush=True)


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
    parser.add_argument("--data", help="as `npcov build --data` takes it")
    parser.add_argument("--verb", choices=["build", "cover"], default="build")
    parser.add_argument("--divide", type=float, default=255)
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--graph", type=int, default=2048, help="inputs of the graph that `--verb cover` measures with")
    parser.add_argument("--warm", type=int, default=64)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", nargs="+", default=["dask", "ray"])
    parser.add_argument("--clustering", default="kmeans")
    parser.add_argument("--memory", type=int, nargs="+", metavar="ROWS")
    parser.add_argument("--labels", action="store_true", help="rows of `--memory` have labels")
    args = parser.parse_args()
    if args.memory is not None and len(args.memory) == 1:
        weigh(args)
    elif args.memory is not None:
        common = [sys.executable, __file__, "--model", args.model, "--divide", str(args.divide)]
        common += ["--clustering", args.clustering, "--verb", args.verb, "--graph", str(args.graph)]
        common += ["--labels"] * args.labels
        for rows in args.memory:
            subprocess.run([*common, "--memory", str(rows)], check=True)
    elif args.data is None:
        parser.error("--data is needed")
    else:
        compare(args)


def compare(args: argparse.Namespace) -> None:
    """One process and engines, in turns."""
    model = npcov.Model(args.model, divide=args.divide)
    limit = {"limit": args.limit}
    options = {"clustering": args.clustering} if args.verb == "build" else {"name": "suite"}
    modules = {}
    for engine in args.engines:
        modules[engine], seconds = start(engine)
        print(f"{engine}: started in {seconds:.1f} s", flush=True)
    traffic = Traffic()
    with tempfile.TemporaryDirectory() as folder:
        subject: Any = model
        if args.verb == "cover":
            learnt = f"{folder}/graph.npcov"
            subject = model.build(args.data, output=learnt, threads=2, limit=args.graph, clustering=args.clustering)
        call = {name: getattr(module, args.verb) for name, module in modules.items()}
        for name in modules:
            call[name](subject, args.data, output=f"{folder}/warm-{name}.npcov", shards=2, limit=args.warm, **options)
        digests, walls = set(), {}
        for turn in range(args.rounds):
            for name in ["alone", *modules]:
                output = Path(folder) / f"{name}-{turn}.npcov"
                events: list[tuple[float, str]] = []
                memory = Memory()

                def watch(event: str, _: int) -> None:
                    events.append((time.monotonic(), event))
                    if event == "clustering":
                        memory.mark("join")

                memory.mark("parts")
                traffic.back = 0
                begin = time.monotonic()
                with Timed() as spent:
                    more = {"output": output, "progress": watch, **limit, **options}
                    if name == "alone":
                        getattr(subject, args.verb)(args.data, threads=2, **more)
                    else:
                        shards = {} if args.shards is None else {"shards": args.shards}
                        call[name](subject, args.data, **shards, **more)
                memory.stop()
                joined = next((at - begin for at, event in events if event == "clustering"), spent.wall)
                digests.add(hashlib.sha256(output.read_bytes()).hexdigest())
                size = os.path.getsize(output)
                output.unlink()
                walls.setdefault(name, []).append((spent.wall, spent.cpu, joined))
                print(
                    f"{name}: {spent.wall:.2f} s wall, {spent.cpu:.2f} s CPU, "
                    f"{joined:.2f} s until all inputs were run, {size} bytes; {memory}; "
                    f"{traffic.back / args.limit:.0f} bytes came back for an input",
                    flush=True,
                )
    if args.verb == "build":
        print(f"{expected(model):.0f} bytes for an input are expected to come back")
    if len(digests) != 1:
        sys.exit("results differ")
    alone = np.median(np.array(walls["alone"]), axis=0)
    for name in modules:
        ratio = np.median(np.array(walls[name]), axis=0) / alone
        print(f"{name} beside one process: wall {ratio[0]:.3f}, CPU {ratio[1]:.3f}, until all were run {ratio[2]:.3f}")


if __name__ == "__main__":
    main()
