"""npcov on a Spark cluster, with the bytes of one process.

>>> import npcov.spark                                                        # doctest: +SKIP
>>> frame = spark.read.parquet("train")                                       # doctest: +SKIP
>>> graph = npcov.spark.build(model, frame, id="id", y="label", output="graph.npcov")  # doctest: +SKIP
>>> coverage = npcov.spark.cover(graph, "images/test", output="state.npcov")  # doctest: +SKIP

Every part is a job of one task in the current session, or in ``spark``; as many run at the same time as the cluster has
room for. Spark repeats a task up to ``spark.task.maxFailures`` times. npcov computes with ``spark.task.cpus`` threads in
each. A driver that died goes on where it was, when it is called again with the same ``output``. Needs ``pip install
npcov[spark]``, and a Java runtime.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Union

from . import _distributed
from ._coverage import Coverage
from ._distributed import ArrayRows, Columns, Engine, Failed, Piece, Rows, Source
from ._distributed.worker import attempt, concatenated, parcels
from ._graph import DecisionGraph
from ._model import Model
from ._progress import Progress
from .errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["build", "cover"]

StrPath = Union[str, "os.PathLike[str]"]


def build(
    model: Model,
    data: DataFrame | StrPath | Any,
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
    strict: bool = False,
    parts: StrPath | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> DecisionGraph:
    """Learns a decision graph, as :meth:`npcov.Model.build` does, with the same options and the same bytes.

    ``data`` is a data frame of Spark, an array with its ``labels``, or the name of a file or folder that driver and
    workers see. Of a frame, ``id`` is a column that numbers its rows and puts them in order, for a frame has none;
    ``x`` names the column with the numbers of inputs, or several columns of a table, by default all but ``id`` and ``y``,
    which has the labels. ``name`` is what the graph calls the data. A frame is read once for every part: one that is
    costly to make should be cached.

    Work is divided into ``shards`` parts. They come back through Spark or, with ``parts``, by way of a folder that all
    see, or a URL of fsspec. ``output`` may be such a URL too.

    Rows that cannot be used are left out: a warning lists them, the graph has them as ``skipped``, and the file
    ``OUTPUT.skipped.json`` too. With ``strict`` they are an error.
    """
    engine = _Spark(spark)
    return _distributed.build(
        engine,
        model,
        _source(data, labels, x, y, id, name, class_names),
        calibration=calibration,
        output=_text(output),
        progress=progress,
        shards=shards,
        threads=engine.threads,
        strict=strict,
        parts=_text(parts),
        options=options,
    )


def cover(
    graph: DecisionGraph,
    data: DataFrame | StrPath | Any,
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
    strict: bool = False,
    parts: StrPath | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> Coverage:
    """Measures a suite, as :meth:`npcov.DecisionGraph.cover` does, with the same options and the same bytes.

    ``name`` is that of the suite. All else is as :func:`build` has it.
    """
    engine = _Spark(spark)
    return _distributed.cover(
        engine,
        graph,
        _source(data, labels, x, y, id, name, class_names),
        name=name,
        earlier=earlier,
        output=_text(output),
        progress=progress,
        shards=shards,
        threads=engine.threads,
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
    if hasattr(data, "mapInArrow"):
        if id is None:
            raise TypeError("rows of a Spark frame have no order: name a column that numbers them, as `id`")
        return Source(None, _Frame(data, id), x, y, id, name, class_names)
    return Source(None, ArrayRows(data, labels), "x", None if labels is None else "y", None, name, class_names)


class _Frame(Rows):
    """Rows of a frame, in the order of a column."""

    def __init__(self, frame: DataFrame, id: str) -> None:
        import numpy as np

        self._frame, self.column = frame, id
        table = frame.select(id).toArrow()
        self._ids = np.sort(table.column(0).to_numpy())
        if len(np.unique(self._ids)) != len(self._ids):
            raise DataError(f"`{id}` does not tell rows apart: some have the same one")

    def count(self) -> int:
        return len(self._ids)

    def id(self, row: int) -> Any:
        return self._ids[row].item()

    def take(self, piece: Piece) -> DataFrame:
        """The rows of a piece."""
        from pyspark.sql import functions

        first, last = self.id(piece.source[0]), self.id(piece.source[1] - 1)
        return self._frame.filter(functions.col(self.column).between(first, last)).coalesce(1)


def _columns(batches: Iterator[Any], id: str) -> Columns:
    """Rows by columns, in the order of one."""
    import numpy as np

    parts = [
        {name: _values(batch.column(i)) for i, name in enumerate(batch.schema.names)} for batch in batches
    ]
    columns = concatenated([part for part in parts if len(part[id])])
    order = np.argsort(columns[id], kind="stable")
    return {name: np.asarray(values)[order] for name, values in columns.items()}


def _values(column: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        rows = column.to_numpy(zero_copy_only=False)
        found = np.empty(len(rows), object)
        for place, row in enumerate(rows):
            found[place] = row
        return found
    return column.to_numpy(zero_copy_only=False)


class _Spark(Engine):
    """Jobs of Spark, one for each part."""

    def __init__(self, spark: SparkSession | None) -> None:
        from pyspark.sql import SparkSession

        found = spark if spark is not None else SparkSession.getActiveSession()
        if found is None:
            raise RuntimeError("there is no session of Spark: give `spark`, or make one")
        self._spark: Any = found
        self.threads = int(found.conf.get("spark.task.cpus", "1") or 1)

    def slots(self) -> int:
        return max(1, int(self._spark.sparkContext.defaultParallelism) // self.threads)

    def run(
        self, work: Any, shared: Mapping[str, Any], pieces: Sequence[Piece], rows: Rows | None
    ) -> Iterator[tuple[int, Any]]:
        packed = parcels(shared)
        addresses = {parcel.name: parcel.digest for parcel in packed}
        sent = {parcel.digest: self._spark.sparkContext.broadcast(parcel.content) for parcel in packed}
        id = rows.column if isinstance(rows, _Frame) else None

        def job(piece: Piece) -> Any:
            if isinstance(rows, _Frame):
                frame = rows.take(piece)
            else:
                frame = self._spark.range(0, 1, 1, 1)
            columns = rows.columns(piece.source) if isinstance(rows, ArrayRows) else None
            task = _task(work, addresses, sent, piece, columns, id)
            found = frame.mapInArrow(task, "result binary").collect()
            return pickle.loads(bytes(found[0]["result"]))

        try:
            with ThreadPoolExecutor(max_workers=self.slots()) as pool:
                waiting = deque(enumerate(pieces))
                running: dict[Future[Any], int] = {}
                # A few more than can run, so that none has to wait for the driver; not all, so that results do not
                # pile up.
                while waiting or running:
                    while waiting and len(running) < 2 * self.slots():
                        place, piece = waiting.popleft()
                        running[pool.submit(job, piece)] = place
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        place = running.pop(future)
                        error = future.exception()
                        result = future.result() if error is None else Failed(_first_lines(str(error)))
                        del future
                        yield place, result
        finally:
            for broadcast in sent.values():
                broadcast.unpersist()


def _task(
    work: Any, addresses: Mapping[str, str], sent: Mapping[str, Any], piece: Piece, columns: Any, id: str | None
) -> Any:
    """What a task of Spark runs: batches of rows come in, one row with the result goes out."""

    def call(batches: Iterator[Any]) -> Iterator[Any]:
        import pickle

        import pyarrow as pa

        from npcov.spark import _columns

        if id is None:
            for _ in batches:
                pass
            rows = columns
        else:
            rows = _columns(batches, id)
        def fetch(digest: str) -> bytes:
            content = bytes(sent[digest].value)
            # It would be kept as long as the task runs.
            sent[digest].__dict__.pop("_value", None)
            return content

        result = attempt(work, addresses, fetch, piece, rows)
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})

    return call


def _first_lines(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines()[:3])
