#!/usr/bin/env python3
"""What Dask keeps of tasks that are done, in the process of its scheduler: tasks that compute nothing.

    .venv-scale/bin/python benches/scale/tasks.py 60 240 540 1000

Memory (RSS) of this process, which has client and scheduler, after so many tasks. As npcov does it, four are under way
at a time, each gives 700 kB back, and none is kept."""

from __future__ import annotations

import gc
import sys
import time

import distributed
import psutil

GIVEN_BACK = 700_000


def task(_: int) -> bytes:
    time.sleep(0.2)
    return bytes(GIVEN_BACK)


def main() -> None:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            done = 0
            for count in map(int, sys.argv[1:]):
                running: set[distributed.Future] = set()
                while done < count or running:
                    while done < count and len(running) < 4:
                        running.add(client.submit(task, done, key=f"npcov-{done}", pure=False))
                        done += 1
                    first = next(iter(distributed.wait(list(running), return_when="FIRST_COMPLETED").done))
                    running.remove(first)
                    first.result()
                    first.release()
                gc.collect()
                print(f"{count} tasks: {psutil.Process().memory_info().rss / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
