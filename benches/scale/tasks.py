#!/usr/bin/env python3
"""What Dask keeps of tasks that are done, in the process of its scheduler: tasks that compute nothing.

    .venv-scale/bin/python benches/scale/tasks.py 60 540 1000 2000 4000 8000
    DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH=10 .venv-scale/bin/python benches/scale/tasks.py 60 540 1000 2000

Memory (RSS) of this process, which has client and scheduler, after so many tasks, and what the scheduler then has: tasks,
and entries of its logs. As npcov does it, four tasks are under way at a time, each gives 700 kB back, and none is
kept."""

from __future__ import annotations

import gc
import sys
import time

import distributed
import psutil

GIVEN_BACK = 700_000


def task(_: int) -> bytes:
    time.sleep(0.01)
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
                kept = cluster.scheduler
                logs = len(kept.transition_log) + sum(len(kept.get_events(topic)) for topic in kept.get_events())
                held = psutil.Process().memory_info().rss / 1e6
                print(f"{count} tasks: {held:.1f} MB, {len(kept.tasks)} tasks, {logs} entries of logs", flush=True)


if __name__ == "__main__":
    main()
