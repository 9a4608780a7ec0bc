"""npcov on a Ray cluster, with the bytes of one process.

>>> import npcov.ray                                                         # doctest: +SKIP
>>> graph = npcov.ray.build(model, ray.data.read_parquet("train"), y="label", output="graph.npcov")  # doctest: +SKIP
>>> coverage = npcov.ray.cover(graph, "images/test", output="state.npcov")   # doctest: +SKIP

Tasks run wherever Ray finds ``threads`` CPUs. A worker that dies is replaced, and its task repeated. A driver that died
goes on where it was, when it is called again with the same ``output``. Needs ``pip install npcov[ray]``.
"""

from __future__ import annotations

import importlib
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _distributed
from ._coverage import Coverage
from ._distributed import ArrayRows, Engine, Failed, Piece, Rows, Source
from ._distributed.worker import attempt, concatenated, parcels
from ._graph import DecisionGraph
from ._model import Model
from ._progress import Progress

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["build", "cover"]

StrPath = Union[str, "os.PathLike[str]"]

# How often a task is tried again whose worker died.
_RETRIES = 3


def _ray() -> Any:
    """Ray, by a name that no type checker can take for this file's where Ray is not installed."""
    return importlib.import_module("ray")


def build(
    model: Model,
    data: Dataset | StrPath | Any,
    labels: Any = None,
    *,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    id: str | None = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    calibration: Any = None,
    output: StrPath | None = None,
    progress: Progress = None,
    shards: int | None = None,
    threads: int = 1,
    strict: bool = False,
    parts: StrPath | None = None,
    **options: Any,
) -> DecisionGraph:
    """Learns a decision graph, as :meth:`npcov.Model.build` does, with the same options and the same bytes.

    ``data`` is a dataset of Ray, an array with its ``labels``, or the name of a file or folder that driver and workers
    see. Of a dataset, ``x`` names the column with the numbers of inputs, or several columns of a table; by default all
    but ``y``, which has the labels, and ``id``. With ``id``, rows are ordered by that column, else as the dataset has
    them. ``name`` is what the graph calls the data.

    Work is divided into ``shards`` parts, each with ``threads`` CPUs. Parts come back through Ray or, with ``parts``, by
    way of a folder that all see, or a URL of fsspec. ``output`` may be such a URL too.

    Rows that cannot be used are left out: a warning lists them, the graph has them as ``skipped``, and the file
    ``OUTPUT.skipped.json`` too. With ``strict`` they are an error.
    """
    return _distributed.build(
        _Ray(threads),
        model,
        _source(data, labels, x, y, id, name, class_names),
        calibration=calibration,
        output=_text(output),
        progress=progress,
        shards=shards,
        threads=threads,
        strict=strict,
        parts=_text(parts),
        options=options,
    )


def cover(
    graph: DecisionGraph,
    data: Dataset | StrPath | Any,
    labels: Any = None,
    *,
    x: str | Sequence[str] | None = None,
    y: str | None = None,
    id: str | None = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    earlier: Coverage | None = None,
    output: StrPath | None = None,
    progress: Progress = None,
    shards: int | None = None,
    threads: int = 1,
    strict: bool = False,
    parts: StrPath | None = None,
    **options: Any,
) -> Coverage:
    """Measures a suite, as :meth:`npcov.DecisionGraph.cover` does, with the same options and the same bytes.

    ``name`` is that of the suite. All else is as :func:`build` has it.
    """
    return _distributed.cover(
        _Ray(threads),
        graph,
        _source(data, labels, x, y, id, name, class_names),
        name=name,
        earlier=earlier,
        output=_text(output),
        progress=progress,
        shards=shards,
        threads=threads,
        strict=strict,
        parts=_text(parts),
        options=options,
    )


def _text(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)


def _source(
    data: Any,
    labels: Any,
    x: str | Sequence[str] | None,
    y: str | None,
    id: str | None,
    name: str | None,
    class_names: Sequence[str] | None,
) -> Source:
    if isinstance(data, (str, os.PathLike)):
        return Source(os.fspath(data), None)
    if hasattr(data, "split_at_indices"):
        return Source(None, _Dataset(data, id), x, y, id, name, class_names)
    return Source(None, ArrayRows(data, labels), "x", None if labels is None else "y", None, name, class_names)


class _Dataset(Rows):
    """Rows of a dataset of Ray, in its object store."""

    def __init__(self, dataset: Dataset, id: str | None) -> None:
        ray = _ray()

        self._ids: Any = None
        options = ray.data.DataContext.get_current().execution_options
        before, options.preserve_order = options.preserve_order, True
        try:
            self._rows = dataset.materialize()
            if id is not None:
                self._ids = self._column(id)
                # Files are mostly in order; shuffling a dataset is dear.
                if not (self._ids[1:] > self._ids[:-1]).all():
                    self._rows = dataset.sort(id).materialize()
                    self._ids = self._column(id)
        finally:
            options.preserve_order = before

    def _column(self, name: str) -> Any:
        ray = _ray()

        return concatenated(ray.get(self._rows.select_columns([name]).to_numpy_refs()))[name]

    def count(self) -> int:
        return int(self._rows.count())

    def id(self, row: int) -> Any:
        if self._ids is None:
            return row
        found = self._ids[row]
        return found.item() if hasattr(found, "item") else found

    def take(self, pieces: Sequence[Piece]) -> list[list[Any]]:
        """References to the rows of pieces."""
        count = self.count()
        bounds = sorted({bound for piece in pieces for bound in piece.source if 0 < bound < count})
        datasets = self._rows.split_at_indices(bounds) if bounds else [self._rows]
        starts = dict(zip([0, *bounds], datasets))
        return [starts[piece.source[0]].to_numpy_refs() for piece in pieces]


def _task(work: Any, addresses: Mapping[str, str], refs: list[Any], piece: Piece, columns: Any, *rows: Any) -> Any:
    ray = _ray()

    def fetch(digest: str) -> bytes:
        content: bytes = ray.get(refs[list(addresses.values()).index(digest)])
        return content

    found = [part for part in rows if len(next(iter(part.values())))]
    return attempt(work, addresses, fetch, piece, concatenated(found) if found else columns)


class _Ray(Engine):
    """Tasks of Ray."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def slots(self) -> int:
        ray = _ray()

        if not ray.is_initialized():
            ray.init()
        return int(ray.cluster_resources().get("CPU", 1)) // self._threads

    def run(
        self, work: Any, shared: Mapping[str, Any], pieces: Sequence[Piece], rows: Rows | None
    ) -> Iterator[tuple[int, Any]]:
        ray = _ray()

        packed = parcels(shared)
        addresses = {parcel.name: parcel.digest for parcel in packed}
        # Inside a list, references are not followed: a worker that has a parcel does not fetch it again.
        refs = [ray.put(parcel.content) for parcel in packed]
        options = {"num_cpus": self._threads, "max_retries": _RETRIES, "retry_exceptions": [OSError, MemoryError]}
        task = ray.remote(**options)(_task)
        taken = rows.take(pieces) if isinstance(rows, _Dataset) else [[] for _ in pieces]
        waiting = deque(enumerate(pieces))
        running: dict[Any, int] = {}
        # A few more than can run, so that none has to wait for the driver; not all, so that results do not pile up.
        most = 2 * max(1, self.slots())
        while waiting or running:
            while waiting and len(running) < most:
                place, piece = waiting.popleft()
                columns = rows.columns(piece.source) if isinstance(rows, ArrayRows) else None
                running[task.remote(work, addresses, refs, piece, columns, *taken[place])] = place
            done, _ = ray.wait(list(running), num_returns=1)
            for ref in done:
                place = running.pop(ref)
                try:
                    result = ray.get(ref)
                except ray.exceptions.RayError as error:
                    result = Failed(str(error))
                del ref
                yield place, result
