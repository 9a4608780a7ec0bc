#!/usr/bin/env python3
"""Where the driver becomes the bottleneck: workers that finish parts, and a driver that takes them one by one.

    benches/scale/simulate.py --inputs 100000000 --seconds 0.057 --part-bytes 21700 --join 0.0057

`--seconds` are CPU seconds of one input on one core, `--join` those of the join on the driver, `--part-bytes` what a
worker sends back of an input, `--driver` the bytes that a driver takes in a second and writes to its disk. A part fails
with the probability `--failures`, in the middle of its work, and is done again. Every part takes its mean time, give or
take a fifth. Nothing is run: events are counted on a clock.
"""

from __future__ import annotations

import argparse
import heapq
import random


def simulate(options: argparse.Namespace, workers: int) -> tuple[float, float, float]:
    """Seconds until all parts are on the driver, how long of that the driver was busy, and the longest queue."""
    chance = random.Random(options.seed)
    # As npcov divides rows: four parts a worker, and none of more than eight shards of 512 inputs.
    shards = -(-options.inputs // 512)
    parts = min(shards, max(4 * workers, -(-shards // 8)))
    each = options.inputs / parts
    work, take = each * options.seconds / options.cores, each * options.part_bytes / options.driver
    waiting = parts
    events: list[tuple[float, bool]] = []

    def begin(now: float) -> None:
        spent = work * chance.uniform(0.8, 1.2)
        failed = chance.random() < options.failures
        heapq.heappush(events, (now + (spent / 2 if failed else spent), failed))

    for _ in range(min(workers, waiting)):
        waiting -= 1
        begin(0.0)
    free, busy, longest = 0.0, 0.0, 0.0
    while events:
        now, failed = heapq.heappop(events)
        if failed:
            begin(now)
            continue
        # The driver takes parts in turn. A worker goes on at once: what it made waits in the engine's store.
        longest = max(longest, max(0.0, free - now) / take if take else 0.0)
        free = max(free, now) + take
        busy += take
        if waiting:
            waiting -= 1
            begin(now)
    return free, busy, longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--join", type=float, default=0.0)
    parser.add_argument("--part-bytes", type=float, required=True)
    parser.add_argument("--driver", type=float, default=200e6)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--failures", type=float, default=0.01)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000, 10000])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| workers | until all parts are there | driver busy | parts that wait | join | all |")
    print("|---|---|---|---|---|---|")
    for workers in options.workers:
        parts, busy, longest = simulate(options, workers)
        join = options.inputs * options.join
        share = busy / parts
        print(
            f"| {workers} | {parts / 3600:.2f} h | {share:.1%} | {longest:.0f} | {join / 3600:.2f} h "
            f"| {(parts + join) / 3600:.2f} h |"
        )


if __name__ == "__main__":
    main()
