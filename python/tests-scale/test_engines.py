"""Every engine gives the bytes of one process: from Parquet, from image folders, with dying workers and bad rows."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CRITERIA, INPUTS, MODEL, OPTIONS, Alone, Cluster, Inputs

import npcov


def made(cluster: Cluster, model: npcov.Model, data: Any, folder: Path, **more: Any) -> Alone:
    """What an engine makes of some data."""
    events: list[tuple[str, int]] = []
    more["progress"] = lambda *told: events.append(told)
    graph = cluster.module.build(model, data, output=folder / "graph.npcov", **more, **OPTIONS)
    skipped = len(graph.skipped)
    assert sum(count for event, count in events if event == "finished") == INPUTS - skipped
    more["name"] = "suite"
    coverage = cluster.module.cover(graph, data, output=folder / "state.npcov", criteria=CRITERIA, **more)
    assert coverage.suites == {"suite": INPUTS - skipped}
    return Alone((folder / "graph.npcov").read_bytes(), (folder / "state.npcov").read_bytes())


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_parquet(shards: int, cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path) -> None:
    found = made(cluster, model, cluster.parquet(inputs.lists), tmp_path, id="id", x="x", y="y", shards=shards)
    assert found == alone("lists", inputs.x.astype(np.float32), inputs.y)


def test_parquet_of_many_columns(cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path) -> None:
    data = cluster.parquet(inputs.numbered)
    found = made(cluster, model, data, tmp_path, id="id", y="y", name=str(inputs.table), shards=3)
    assert found == alone("table", str(inputs.table))


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_image_folder(shards: int, cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path) -> None:
    found = made(cluster, model, str(inputs.images), tmp_path, shards=shards)
    assert found == alone("images", str(inputs.images))


def dying(marks: Path) -> Any:
    """Preprocessing that kills its process three times: while data is looked at, while a graph is built, and while a
    suite is measured."""
    calls_each = INPUTS // 256
    times = (calls_each // 4, calls_each * 3 // 2, calls_each * 10 // 3)

    def halved(batch: Any) -> Any:
        mark = marks / "calls"
        if marks.exists():
            with open(mark, "a") as file:
                file.write(".")
            calls = os.path.getsize(mark)
            for death, time in enumerate(times):
                if calls >= time:
                    try:
                        os.mkdir(marks / f"death-{death}")
                    except FileExistsError:
                        continue
                    os.kill(os.getpid(), signal.SIGKILL)
        return batch // 2

    return halved


def test_workers_that_are_killed(cluster: Cluster, inputs: Inputs, alone: Any, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    model = npcov.Model(MODEL, divide=127, preprocess=dying(marks))
    expected = alone("halved", inputs.x, inputs.y, by=model)
    marks.mkdir()
    found = made(cluster, model, inputs.x, tmp_path, labels=inputs.y, shards=16)
    assert len(list(marks.glob("death-*"))) == 3
    assert found == expected


def test_a_bad_row(cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path) -> None:
    x = inputs.x.astype(np.float32)
    bad = INPUTS // 3
    expected = alone("without", np.delete(x, bad, 0), np.delete(inputs.y, bad))
    x[bad, 17] = np.nan
    with pytest.warns(npcov.NpcovWarning, match=f"1 of {INPUTS} rows were left out: row {bad}: "):
        found = made(cluster, model, x, tmp_path, labels=inputs.y, shards=3)
    assert found == expected
    with pytest.raises(npcov.DataError, match=f"row {bad}: "):
        cluster.module.build(model, x, inputs.y, output=tmp_path / "strict.npcov", strict=True, **OPTIONS)


def test_a_driver_that_died_goes_on(cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path) -> None:
    graph = tmp_path / "graph.npcov"

    def die(event: str, count: int) -> None:
        if event == "finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.module.build(model, str(inputs.images), output=graph, shards=16, progress=die, **OPTIONS)
    events: list[tuple[str, int]] = []
    more = {"shards": 16, "progress": lambda *told: events.append(told)}
    cluster.module.build(model, str(inputs.images), output=graph, **more, **OPTIONS)
    assert sum(count for event, count in events if event == "resumed") > 0
    assert graph.read_bytes() == alone("images", str(inputs.images)).graph
