"""Every engine gives the bytes of one process: from Parquet, from image folders, with dying workers and bad rows."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CRITERIA, INPUTS, MODEL, OPTIONS, Alone, Cluster, Inputs, write_lists

import npcov
from npcov._distributed import Engine, driver, worker
from npcov._distributed.worker import GraphFile


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


def killed_once(marks: Path, name: str) -> Any:
    """The work of a task, but that the first one of the second half kills its process."""

    def work(shared: Any, piece: Any, columns: Any) -> Any:
        from npcov._distributed import worker

        if 2 * piece.part > piece.parts:
            try:
                os.mkdir(marks / name)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return getattr(worker, name)(shared, piece, columns)

    return work


@pytest.mark.parametrize(("kind", "shards"), [("parquet", 1), ("parquet", 3), ("images", 3), ("images", 16)])
def test_workers_that_are_killed_with_files(
    kind: str,
    shards: int,
    cluster: Cluster,
    inputs: Inputs,
    model: Any,
    alone: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not in every step: a worker takes a while to start again, and tasks may be killed four times at most.
    marks, works = tmp_path / "marks", ["build", "cover"]
    marks.mkdir()
    for name in works:
        monkeypatch.setattr(worker, name, killed_once(marks, name))
    if kind == "parquet":
        more: dict[str, Any] = {"id": "id", "x": "x", "y": "y", "shards": shards}
        found = made(cluster, model, cluster.parquet(inputs.lists), tmp_path, **more)
        expected = alone("lists", inputs.x.astype(np.float32), inputs.y)
    else:
        found = made(cluster, model, str(inputs.images), tmp_path, shards=shards)
        expected = alone("images", str(inputs.images))
    assert sorted(os.listdir(marks)) == sorted(works)
    assert found == expected


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_a_bad_row_of_parquet(
    shards: int, cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path
) -> None:
    x = inputs.x.astype(np.float32)
    bad = INPUTS // 3
    expected = alone("without", np.delete(x, bad, 0), np.delete(inputs.y, bad))
    x[bad, 17] = np.nan
    write_lists(tmp_path / "lists.parquet", x, inputs.y)
    data = cluster.parquet(tmp_path / "lists.parquet")
    with pytest.warns(npcov.NpcovWarning, match=f"1 of {INPUTS} rows were left out: row {bad}: "):
        found = made(cluster, model, data, tmp_path, id="id", x="x", y="y", shards=shards)
    assert found == expected


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_a_bad_image(
    shards: int, cluster: Cluster, broken: tuple[Path, Alone], model: Any, tmp_path: Path
) -> None:
    folder, expected = broken
    with pytest.warns(npcov.NpcovWarning, match=f"1 of {INPUTS} rows were left out"):
        found = made(cluster, model, str(folder), tmp_path, shards=shards)
    assert found == expected


def test_a_graph_that_workers_do_not_see(
    cluster: Cluster, inputs: Inputs, model: Any, alone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone("images", str(inputs.images))
    (tmp_path / "graph.npcov").write_bytes(expected.graph)
    graph = npcov.DecisionGraph(tmp_path / "graph.npcov", MODEL)
    sliced = GraphFile.slices

    def slices(self: GraphFile) -> Any:
        return [replace(part, path=str(tmp_path / "graph.npcov")) for part in sliced(self)]

    # Where the driver looks for it and where workers do are two places.
    monkeypatch.setattr(GraphFile, "slices", slices)
    monkeypatch.setattr(driver, "GraphFile", lambda path, *more: GraphFile(path + ".elsewhere", *more))
    more = {"name": "suite", "criteria": CRITERIA, "output": tmp_path / "state.npcov", "shards": 3}
    cluster.module.cover(graph, str(inputs.images), **more)
    assert (tmp_path / "state.npcov").read_bytes() == expected.state


def test_classes_are_divided(
    cluster: Cluster, inputs: Inputs, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if there were more workers than classes, and enough rows for them.
    engines = [e for e in vars(cluster.module).values() if isinstance(e, type) and issubclass(e, Engine)]
    for engine in engines:
        monkeypatch.setattr(engine, "slots", lambda self: 15)
    monkeypatch.setattr(driver, "_WORTH_DIVIDING", 1)
    options = {"clustering": "kmeans", "restarts": 3, "limit": 2048, "criteria": "snpc"}
    alone, graph = tmp_path / "alone.npcov", tmp_path / "graph.npcov"
    model.build(str(inputs.images), output=alone, **options)
    found: set[str] = set()
    clustered = driver._Run.cluster

    def look(run: Any, shared: Any, output: str) -> None:
        clustered(run, shared, output)
        found.update(name for name in os.listdir(f"{graph}.parts") if name.startswith("clusters-"))

    # Before the join, which removes them.
    monkeypatch.setattr(driver._Run, "cluster", look)
    cluster.module.build(model, str(inputs.images), output=graph, shards=3, **options)
    # Each of fifteen tasks has two of thirty restarts: none has all three of a class. Classes without inputs have none.
    classes = {name.removeprefix("clusters-")[:6] for name in found}
    assert len(classes) > 2
    assert found == {f"clusters-{of_class}-{restart:06}.safetensors" for of_class in classes for restart in range(3)}
    assert graph.read_bytes() == alone.read_bytes()


def test_large_classes_are_clustered_by_all_workers(
    cluster: Cluster, inputs: Inputs, model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    # As if a worker held no more than a hundred paths, of eight bytes each.
    monkeypatch.setattr(driver, "_HELD", 800)
    monkeypatch.setattr(driver, "_BLOCK", 1600)
    monkeypatch.setattr(worker, "answer", killed_once(marks, "answer"))
    options = {"clustering": "kmeans", "clusters": 2, "restarts": 2, "limit": 1024, "criteria": "snpc"}
    alone, graph = tmp_path / "alone.npcov", tmp_path / "graph.npcov"
    model.build(str(inputs.images), output=alone, **options)
    classes: list[int] = []
    spread = npcov._npcov.cluster_spread
    monkeypatch.setattr(npcov._npcov, "cluster_spread", lambda *given: classes.extend(spread(*given)))
    cluster.module.build(model, str(inputs.images), output=graph, shards=2, **options)
    assert classes and os.listdir(marks) == ["answer"]
    assert graph.read_bytes() == alone.read_bytes()


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
