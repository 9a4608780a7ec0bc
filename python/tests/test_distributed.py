"""Distributed work with an engine that is this process: plans, parts, bad rows, what a driver that died left."""

from __future__ import annotations

import array
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcov
from conftest import IMAGES, MODEL
from npcov import _distributed
from npcov._distributed import ArrayRows, Engine, Failed, Piece, Rows, Source, driver, worker
from npcov._distributed.worker import attempt, parcels


class Here(Engine):
    """Does tasks one by one, the last one first; some fail as if their workers were dead for good."""

    def __init__(self, dead: Sequence[int] = ()) -> None:
        self.dead, self.done = dead, list[str]()

    def slots(self) -> int:
        return 2

    def run(
        self, work: Any, shared: Mapping[str, Any], pieces: Sequence[Piece], rows: Rows | None
    ) -> Iterator[tuple[int, Any]]:
        packed = {parcel.digest: parcel for parcel in parcels(shared)}
        addresses = {parcel.name: parcel.digest for parcel in packed.values()}
        for place, piece in reversed(list(enumerate(pieces))):
            if place in self.dead and work.__name__ != "look":
                yield place, Failed("its worker died")
                continue
            columns = rows.columns(piece.source) if isinstance(rows, ArrayRows) else None
            self.done.append(work.__name__)
            yield place, attempt(work, addresses, lambda digest: packed[digest].content, piece, columns)


def of_arrays(x: Any, y: Any) -> Source:
    return Source(None, ArrayRows(x, y), "x", "y")


def built(engine: Engine, model: npcov.Model, source: Source, output: Path, **more: Any) -> npcov.DecisionGraph:
    options = more.pop("options", {})
    return _distributed.build(engine, model, source, output=str(output), options=options, **more)


@pytest.fixture(scope="module")
def alone(model: npcov.Model, images: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes: a graph of arrays, and coverage."""
    folder = tmp_path_factory.mktemp("alone")
    graph = model.build(*images, output=folder / "graph.npcov")
    graph.cover(*images, output=folder / "state.npcov")
    return folder


def test_classes_are_clustered_by_tasks(
    alone: Path, model: npcov.Model, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Here()
    made: list[list[str]] = []
    build = worker.cluster

    def cluster(shared: Any, piece: Piece, columns: Any) -> Any:
        done = build(shared, piece, columns)
        made.append(sorted(path.name for path in (tmp_path / "graph.npcov.parts").glob("clusters-*")))
        return done

    monkeypatch.setattr(worker, "cluster", cluster)
    built(engine, model, of_arrays(*images), tmp_path / "graph.npcov", shards=2)
    assert [len(names) for names in made] == [5, 10]
    assert (tmp_path / "graph.npcov").read_bytes() == (alone / "graph.npcov").read_bytes()


@pytest.mark.parametrize("block", [64, 1 << 10, 1 << 20])
def test_large_classes_are_clustered_by_all_workers(
    block: int, model: npcov.Model, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"clustering": "kmeans", "clusters": 3, "restarts": 4}
    model.build(*images, output=tmp_path / "alone.npcov", **options)
    monkeypatch.setattr(driver, "_HELD", 0)
    monkeypatch.setattr(driver, "_BLOCK", block)
    kept: list[list[str]] = []
    cluster = worker.cluster

    def watched(shared: Any, piece: Piece, columns: Any) -> Any:
        kept.append(sorted(path.name for path in (tmp_path / "graph.npcov.parts").glob("*.safetensors")))
        return cluster(shared, piece, columns)

    monkeypatch.setattr(worker, "cluster", watched)
    engine = Here()
    built(engine, model, of_arrays(*images), tmp_path / "graph.npcov", options=options)
    assert engine.done.count("answer") > 0
    # Classes are there when tasks begin that cluster them whole, and no points are left.
    names = [name for name in kept[0] if not name.startswith("paths-")]
    assert len(names) > 2
    assert all(name.startswith("clusters-") and name.count("-") == 1 for name in names)
    assert (tmp_path / "graph.npcov").read_bytes() == (tmp_path / "alone.npcov").read_bytes()


def test_classes_whose_points_workers_do_not_see_are_clustered_by_one(
    model: npcov.Model, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"clustering": "kmeans", "clusters": 3, "restarts": 2}
    model.build(*images, output=tmp_path / "alone.npcov", **options)
    monkeypatch.setattr(driver, "_HELD", 0)
    for dead in ([], [0]):
        engine = Here()
        answer = worker.answer

        def unseen(shared: Any, piece: Piece, columns: Any) -> str | None:
            return None if piece.part - 1 in dead or not dead else answer(shared, piece, columns)

        monkeypatch.setattr(worker, "answer", unseen)
        built(engine, model, of_arrays(*images), tmp_path / "graph.npcov", options=options)
        assert (tmp_path / "graph.npcov").read_bytes() == (tmp_path / "alone.npcov").read_bytes()
        assert engine.done.count("unseen") > 0
        (tmp_path / "graph.npcov").unlink()
        monkeypatch.setattr(worker, "answer", answer)


def test_a_graph_that_workers_do_not_see_is_sent_in_slices(
    alone: Path, model: npcov.Model, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "sees", lambda graph: False)
    monkeypatch.setattr(worker, "_SENT", 100_000)
    monkeypatch.setattr(worker, "_ready", {})
    graph = npcov.DecisionGraph(alone / "graph.npcov", MODEL)
    engine, state = Here(), tmp_path / "state.npcov"
    _distributed.cover(engine, graph, of_arrays(*images), output=str(state), shards=2, options={})
    assert state.read_bytes() == (alone / "state.npcov").read_bytes()
    # Both were told to wait; later ones had it from the beginning.
    assert engine.done == ["look"] * 4 + ["cover"] * 2


def test_what_is_known_of_rows_is_sent_in_slices(
    alone: Path, model: npcov.Model, images: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand rows are sixteen blocks, with 32 bytes each.
    monkeypatch.setattr(worker, "_CUT", 100)
    sent: dict[str, int] = {}

    class Weighed(Here):
        def run(self, work: Any, shared: Mapping[str, Any], *rest: Any) -> Iterator[tuple[int, Any]]:
            sent.update({parcel.name: len(parcel.content) for parcel in parcels(shared)})
            return super().run(work, shared, *rest)

    source = of_arrays(images[0], images[1].astype(np.int64))
    built(Weighed(), model, source, tmp_path / "graph.npcov", shards=2)
    assert (tmp_path / "graph.npcov").read_bytes() == (alone / "graph.npcov").read_bytes()
    assert [sent.get(f"blocks/{i}") for i in range(7)] == [100] * 5 + [12] + [None]
    # Labels are a byte each.
    assert 1000 < sent["known"] < 1500


@pytest.mark.parametrize("kind", ["i1", "u1", ">i2", "u4", "i8", ">i8", "f4", "f8"])
def test_labels_of_any_type_are_the_same(
    kind: str, alone: Path, model: npcov.Model, images: Any, tmp_path: Path
) -> None:
    source = of_arrays(images[0], images[1].astype(kind))
    built(Here(), model, source, tmp_path / "graph.npcov", shards=2)
    assert (tmp_path / "graph.npcov").read_bytes() == (alone / "graph.npcov").read_bytes()


@pytest.mark.parametrize(("labels", "kind"), [([0, 127], "b"), ([-1, 128], "h"), ([0, 1 << 15], "i"), ([1 << 31], "l")])
def test_labels_are_as_narrow_as_they_can_be(labels: list[int], kind: str) -> None:
    narrow = worker._narrow(np.array(labels, np.int64))
    found = driver._words_of(np.concatenate([narrow]), None)[0]
    assert isinstance(found, array.array) and (found.typecode, list(found)) == (kind, labels)


def test_a_driver_holds_no_graph(alone: Path, images: Any, tmp_path: Path) -> None:
    graph = npcov.DecisionGraph(alone / "graph.npcov", MODEL)

    class Weighed(Here):
        def run(self, work: Any, shared: Mapping[str, Any], *rest: Any) -> Iterator[tuple[int, Any]]:
            sizes.append(sum(len(parcel.content) for parcel in parcels(shared)))
            return super().run(work, shared, *rest)

    sizes: list[int] = []
    _distributed.cover(Weighed(), graph, of_arrays(*images), output=str(tmp_path / "s.npcov"), shards=2, options={})
    model_size = (Path(MODEL)).stat().st_size
    assert max(sizes) < model_size + (alone / "graph.npcov").stat().st_size // 4


def test_a_driver_holds_no_coverage(alone: Path, images: Any, tmp_path: Path) -> None:
    graph, state = npcov.DecisionGraph(alone / "graph.npcov", MODEL), tmp_path / "state.npcov"
    coverage = _distributed.cover(Here(), graph, of_arrays(*images), output=str(state), shards=2, options={})
    assert not isinstance(coverage._measured, npcov._npcov.Coverage)
    # Nor does it depend on what becomes of the file.
    state.unlink()
    assert coverage == npcov.Coverage(alone / "state.npcov")


def test_parts_are_added_to_earlier_coverage(alone: Path, images: Any, tmp_path: Path) -> None:
    graph, (x, y) = npcov.DecisionGraph(alone / "graph.npcov", MODEL), images
    earlier = graph.cover(x[:40], y[:40], name="earlier")
    graph.cover(x, y, name="suite", earlier=earlier, output=tmp_path / "alone.npcov")
    made: dict[str, Any] = {"earlier": earlier, "name": "suite", "output": str(tmp_path / "state.npcov")}
    coverage = _distributed.cover(Here(), graph, of_arrays(x, y), shards=2, options={}, **made)
    assert (tmp_path / "state.npcov").read_bytes() == (tmp_path / "alone.npcov").read_bytes()
    assert coverage.suites == {"earlier": 40, "suite": 1000}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.npcov", "state.npcov"]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_arrays_have_the_bytes_of_one_process(
    shards: int, alone: Path, model: npcov.Model, images: Any, tmp_path: Path
) -> None:
    source = of_arrays(*images)
    graph = built(Here(), model, source, tmp_path / "graph.npcov", shards=shards)
    assert (tmp_path / "graph.npcov").read_bytes() == (alone / "graph.npcov").read_bytes()
    assert not (tmp_path / "graph.npcov.parts").exists() and list(graph.skipped) == []
    state = tmp_path / "state.npcov"
    coverage = _distributed.cover(Here(), graph, source, shards=shards, output=str(state), options={})
    assert state.read_bytes() == (alone / "state.npcov").read_bytes()
    assert coverage.suites == {"arrays in memory": 1000}


def test_a_path_with_options_and_calibration(model: npcov.Model, images: Any, tmp_path: Path) -> None:
    options = {"limit": 700, "alpha": 0.7, "clustering": "kmeans"}
    apart = (images[0][:600], images[1][:600])
    model.build(IMAGES, calibration=apart, output=tmp_path / "alone.npcov", **options)
    made = tmp_path / "graph.npcov"
    built(Here(), model, Source(IMAGES, None), made, shards=2, calibration=apart, options=options)
    assert made.read_bytes() == (tmp_path / "alone.npcov").read_bytes()


def test_without_an_output_all_is_in_memory(alone: Path, model: npcov.Model, images: Any, tmp_path: Path) -> None:
    graph = _distributed.build(Here(), model, of_arrays(*images), options={})
    graph.save(tmp_path / "graph.npcov")
    assert npcov.DecisionGraph(alone / "graph.npcov", MODEL).id == graph.id
    assert graph.cover(*images, limit=10).suites == {"arrays in memory": 10}


def test_bad_rows_are_left_out_and_listed(model: npcov.Model, images: Any, tmp_path: Path) -> None:
    x, y = images[0].astype(np.float32), images[1]
    x[[3, 600]] = np.nan
    x[999, 0] = np.inf
    bad = [3, 600, 999]
    model.build(np.delete(x, bad, 0), np.delete(y, bad), output=tmp_path / "alone.npcov")
    made = tmp_path / "graph.npcov"
    with pytest.warns(npcov.NpcovWarning, match="3 of 1000 rows were left out: row 3: .*; row 600"):
        graph = built(Here(), model, of_arrays(x, y), made, shards=2)
    assert made.read_bytes() == (tmp_path / "alone.npcov").read_bytes()
    assert [row.row for row in graph.skipped] == bad
    listed = json.loads((tmp_path / "graph.npcov.skipped.json").read_text())
    assert [row["id"] for row in listed] == bad and all(row["reason"] for row in listed)
    with pytest.raises(npcov.DataError, match="3 of 1000 rows cannot be used: row 3"):
        built(Here(), model, of_arrays(x, y), tmp_path / "other.npcov", strict=True)


def test_rows_that_only_the_model_cannot_bear(images: Any, tmp_path: Path) -> None:
    model = npcov.Model(MODEL, divide=1)
    x, y = images[0].astype(np.float32), images[1]
    x[700] = 3e38
    model.build(np.delete(x, 700, 0), np.delete(y, 700), output=tmp_path / "alone.npcov")
    made = tmp_path / "graph.npcov"
    with pytest.warns(npcov.NpcovWarning, match="1 of 1000 rows were left out: row 700: "):
        graph = built(Here(), model, of_arrays(x, y), made, shards=2)
    assert made.read_bytes() == (tmp_path / "alone.npcov").read_bytes()
    coverage = None
    with pytest.warns(npcov.NpcovWarning, match="row 700"):
        coverage = _distributed.cover(Here(), graph, of_arrays(x, y), shards=2, options={})
    assert coverage == graph.cover(np.delete(x, 700, 0), np.delete(y, 700))


def test_a_broken_image_is_left_out(model: npcov.Model, images: Any, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    write_images(folder, *images)
    broken = sorted(folder.glob("3/*.png"))[7]
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    (kept / "3" / broken.name).unlink()
    broken.write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    made, alone = tmp_path / "graph.npcov", tmp_path / "alone.npcov"
    with pytest.warns(npcov.NpcovWarning, match="1 of 1000 rows were left out"):
        built(Here(), model, Source(str(folder), None), made, shards=2)
    # The graph says what its data was called.
    kept_at = tmp_path / "elsewhere"
    folder.rename(kept_at)
    kept.rename(folder)
    model.build(str(folder), output=alone)
    assert made.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("place", [None, "folder", "url"])
def test_what_is_finished_is_kept(
    place: str | None, alone: Path, model: npcov.Model, images: Any, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec") if place == "url" else None
    where = {None: None, "folder": str(tmp_path / "there"), "url": f"file://{tmp_path}/there"}[place]
    made, source = tmp_path / "graph.npcov", of_arrays(*images)
    with pytest.raises(npcov.ShardError, match="1 of 2 parts failed: rows 512 to 999: its worker died"):
        built(Here(dead=[1]), model, source, made, shards=2, parts=where)
    engine = Here()
    events: list[tuple[str, int]] = []
    graph = built(engine, model, source, made, shards=2, parts=where, progress=lambda *told: events.append(told))
    assert engine.done.count("build") == 1 and ("resumed", 512) in events
    assert made.read_bytes() == (alone / "graph.npcov").read_bytes()
    state = tmp_path / "state.npcov"
    with pytest.raises(npcov.ShardError):
        _distributed.cover(Here(dead=[0]), graph, source, shards=2, parts=where, output=str(state), options={})
    engine = Here()
    _distributed.cover(engine, graph, source, shards=2, parts=where, output=str(state), options={})
    assert engine.done.count("cover") == 1
    assert state.read_bytes() == (alone / "state.npcov").read_bytes()
    assert where is None or not list((tmp_path / "there").iterdir())


def test_parts_of_other_work_are_refused(model: npcov.Model, images: Any, tmp_path: Path) -> None:
    made = tmp_path / "graph.npcov"
    with pytest.raises(npcov.ShardError):
        built(Here(dead=[1]), model, of_arrays(*images), made, shards=2)
    with pytest.raises(npcov.NpcovError, match="alpha"):
        built(Here(), model, of_arrays(*images), made, shards=2, options={"alpha": 0.5})


def test_a_result_can_go_to_a_url(alone: Path, model: npcov.Model, images: Any, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "there").mkdir()
    _distributed.build(
        Here(), model, of_arrays(*images), output=f"file://{tmp_path}/there/graph.npcov", options={}
    )
    found = npcov.DecisionGraph(tmp_path / "there" / "graph.npcov", MODEL)
    assert found.id == npcov.DecisionGraph(alone / "graph.npcov", MODEL).id


def write_images(folder: Path, x: Any, y: Any) -> None:
    """A folder of PNG files, with one folder a class."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    for place, (image, label) in enumerate(zip(x.reshape(-1, 28, 28), y)):
        home = folder / str(label)
        home.mkdir(parents=True, exist_ok=True)
        rows = b"".join(b"\0" + row.tobytes() for row in image)
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0))
        png = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
        (home / f"{place:06}.png").write_bytes(png)
