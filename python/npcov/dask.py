"""npcov on a Dask cluster, with the bytes of one process.

>>> import npcov.dask                                                        # doctest: +SKIP
>>> frame = dask.dataframe.read_parquet("train")                             # doctest: +SKIP
>>> graph = npcov.dask.build(model, frame, y="label", output="graph.npcov")  # doctest: +SKIP
>>> coverage = npcov.dask.cover(graph, "images/test", output="state.npcov")  # doctest: +SKIP

Tasks run on the workers of the current :class:`distributed.Client`, or of ``client``, one on each of their threads. A
worker that dies is replaced by its nanny, and its task repeated. A cluster that has had no worker for five minutes is
an error. A driver that died goes on where it was, when it is called again with the same ``output``. Needs
``pip install npcov[dask]``.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _distributed
from ._coverage import Coverage
from ._distributed import ArrayRows, Columns, Engine, Failed, Piece, Rows, Source
from ._distributed.worker import Cut, Parcel, Slice, attempt, concatenated, parcels
from ._graph import DecisionGraph
from ._model import Model
from ._progress import Progress
from .errors import ShardError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["build", "cover"]

StrPath = Union[str, "os.PathLike[str]"]

# How often a task is tried again that failed.
_RETRIES = 2

# Seconds that a cluster may be without a worker: Dask would wait for ever, and some clusters take minutes to start one.
_ALONE = 300.0

# Seconds until it is looked whether there are workers, the first time and later.
_LOOK, _LONGEST_LOOK = 5.0, 60.0


def build(
    model: Model,
    data: Any,
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
    client: Client | None = None,
    **options: Any,
) -> DecisionGraph:
    """Learns a decision graph, as :meth:`npcov.Model.build` does, with the same options and the same bytes.

    ``data`` is a data frame of Dask, an array of Dask or numpy with its ``labels``, or the name of a file or folder
    that driver and workers see. Of a frame, ``x`` names the column with the numbers of inputs, or several columns of a
    table; by default all but ``y``, which has the labels, and ``id``, by which bad rows are named. Rows are in the order
    of partitions. ``name`` is what the graph calls the data.

    Work is divided into ``shards`` parts, each of which computes with ``threads`` threads. Parts come back through Dask
    or, with ``parts``, by way of a folder that all see, or a URL of fsspec. ``output`` may be such a URL too.

    Rows that cannot be used are left out: a warning lists them, the graph has them as ``skipped``, and the file
    ``OUTPUT.skipped.json`` too. With ``strict`` they are an error.
    """
    engine = _Dask(client)
    return _distributed.build(
        engine,
        model,
        engine.source(data, labels, x, y, id, name, class_names),
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
    data: Any,
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
    client: Client | None = None,
    **options: Any,
) -> Coverage:
    """Measures a suite, as :meth:`npcov.DecisionGraph.cover` does, with the same options and the same bytes.

    ``name`` is that of the suite. All else is as :func:`build` has it.
    """
    engine = _Dask(client)
    return _distributed.cover(
        engine,
        graph,
        engine.source(data, labels, x, y, id, name, class_names),
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


class _Partitions(Rows):
    """Rows of partitions, which are held by the cluster: those of a frame, or of an array and its labels."""

    def __init__(self, client: Client, columns: Mapping[str | None, list[Any]], id: str | None = None) -> None:
        self._client, self._id = client, id
        self._columns = dict(columns)
        self._starts: dict[str | None, list[int]] = {}
        for name, partitions in self._columns.items():
            starts = [0]
            for length in _results(client, client.map(len, partitions, pure=False)):
                starts.append(starts[-1] + int(length))
            self._starts[name] = starts
        if len({starts[-1] for starts in self._starts.values()}) != 1:
            raise ValueError("there is not one label for each sample")

    def count(self) -> int:
        return next(iter(self._starts.values()))[-1]

    def id(self, row: int) -> Any:
        if self._id is None or None not in self._columns:
            return row
        starts = self._starts[None]
        place = max(i for i, start in enumerate(starts[:-1]) if start <= row)
        column = self._client.submit(_cell, self._columns[None][place], self._id, row - starts[place], pure=False)
        return _results(self._client, [column])[0]

    def take(self, piece: Piece) -> list[tuple[str | None, Any, int, int]]:
        """Parts of partitions, with what they are a column of; of frames, nothing."""
        found = []
        for name, partitions in self._columns.items():
            starts = self._starts[name]
            for partition, start, end in zip(partitions, starts, starts[1:]):
                first, last = max(start, piece.source[0]), min(end, piece.source[1])
                if first < last:
                    found.append((name, partition, first - start, last - start))
        return found


def _patiently(client: Client, ask: Callable[[float], Any]) -> Any:
    """What a question gives that is told how many seconds it may take, and that is asked again as long as there are
    workers, or may be again. A cluster whose workers do not come back is an error."""
    from distributed import TimeoutError

    seen, seconds = time.monotonic(), _LOOK
    while True:
        # What waits asks for the current client.
        with contextlib.suppress(TimeoutError), client.as_current():
            return ask(seconds)
        now = time.monotonic()
        if client.nthreads():
            seen = now
        elif now - seen >= _ALONE:
            raise ShardError(
                f"Dask has had no worker for {now - seen:.0f} seconds",
                "what is finished is kept, and the same call goes on from there; a local cluster gives up workers that "
                "take longer to start again than `distributed.deploy.lost-worker-timeout`",
            )
        seconds = min(2 * seconds, _LONGEST_LOOK)


def _outcome(client: Client, future: Any) -> Any:
    """What a task gave, or its error. Its worker may be gone since, and the task be done again."""
    from distributed import wait

    def ask(seconds: float) -> Any:
        wait(future, timeout=seconds)
        return future.exception() if future.status == "error" else future.result(timeout=seconds)

    return _patiently(client, ask)


def _results(client: Client, futures: Sequence[Any]) -> list[Any]:
    """What all of some tasks gave."""
    found = [_outcome(client, future) for future in futures]
    for error in found:
        if isinstance(error, BaseException):
            raise error
    return found


def _cell(frame: Any, column: str, row: int) -> Any:
    found = frame[column].iloc[row]
    return found.item() if hasattr(found, "item") else found


def _columns(fragments: list[tuple[str | None, Any, int, int]]) -> Columns:
    """Rows by columns, of fragments of partitions."""
    found: dict[str | None, list[Columns]] = {}
    for name, rows, start, end in fragments:
        part = rows[start:end] if name is not None else rows.iloc[start:end]
        columns = {name: part} if name is not None else {str(c): part[c].to_numpy() for c in part.columns}
        found.setdefault(name, []).append(columns)
    return {key: value for parts in found.values() for key, value in concatenated(parts).items()}


# Files with the parcels that a plugin brought to this worker, by digest: those of a graph may be more than memory holds.
_brought: dict[str, str] = {}


def _fetch(digest: str) -> bytes:
    with open(_brought[digest], "rb") as file:
        return file.read()


def _plugin_name(parcel: Parcel | Slice | Cut) -> str:
    return f"npcov-{parcel.digest}"


def _plugin(parcel: Parcel | Slice | Cut) -> Any:
    """What brings a parcel to every worker once, also to those that come later."""
    from distributed import WorkerPlugin

    class Bring(WorkerPlugin):  # type: ignore[misc]
        idempotent = True

        def __init__(self, name: str, digest: str, content: bytes) -> None:
            self.name, self.digest, self.content = name, digest, content

        def setup(self, worker: Any) -> None:
            from npcov.dask import _brought

            descriptor, path = tempfile.mkstemp(prefix="npcov-", dir=worker.local_directory)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.content)
            _brought[self.digest] = path
            del self.content

        def teardown(self, worker: Any) -> None:
            from npcov.dask import _brought

            path = _brought.pop(self.digest, None)
            if path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    return Bring(_plugin_name(parcel), parcel.digest, parcel.content)


def _task(
    work: Any, addresses: Mapping[str, str], piece: Piece, columns: Any, fragments: list[Any]
) -> Any:
    return attempt(work, addresses, _fetch, piece, _columns(fragments) if fragments else columns)


class _Dask(Engine):
    """Tasks of Dask."""

    def __init__(self, client: Client | None) -> None:
        from distributed import get_client

        self._client: Any = client if client is not None else get_client()

    def source(
        self,
        data: Any,
        labels: Any,
        x: str | Sequence[str] | None,
        y: str | None,
        id: str | None,
        name: str | None,
        class_names: Sequence[str] | None,
    ) -> Source:
        """Rows of whatever there is."""
        if isinstance(data, (str, os.PathLike)):
            return Source(os.fspath(data), None)
        if hasattr(data, "to_delayed") and hasattr(data, "columns"):
            partitions = self._client.compute(list(data.to_delayed()))
            return Source(None, _Partitions(self._client, {None: partitions}, id), x, y, id, name, class_names)
        if hasattr(data, "to_delayed"):
            arrays = {"x": data} if labels is None else {"x": data, "y": labels}
            columns = {key: self._chunks(value) for key, value in arrays.items()}
            rows: Rows = _Partitions(self._client, columns)  # type: ignore[arg-type]
        else:
            rows = ArrayRows(data, labels)
        return Source(None, rows, "x", None if labels is None else "y", None, name, class_names)

    def _chunks(self, array: Any) -> list[Any]:
        if not hasattr(array, "to_delayed"):
            return [self._client.scatter(array, hash=False)]
        whole = array.rechunk({axis: -1 for axis in range(1, array.ndim)})
        found: list[Any] = self._client.compute(list(whole.to_delayed().ravel()))
        return found

    def slots(self) -> int:
        return max(1, int(sum(self._client.nthreads().values())))

    def run(
        self, work: Any, shared: Mapping[str, Any], pieces: Sequence[Piece], rows: Rows | None
    ) -> Iterator[tuple[int, Any]]:
        packed = parcels(shared)
        addresses = {parcel.name: parcel.digest for parcel in packed}
        plugins = {_plugin_name(parcel) for parcel in packed}
        # One after the other: each holds what it brings, and the driver has no use for that afterwards.
        while packed:
            self._client.register_plugin(_plugin(packed.pop(0)))
        run = uuid.uuid4().hex
        waiting = deque(enumerate(pieces))
        places: dict[str, int] = {}

        def submit() -> Any:
            place, piece = waiting.popleft()
            columns = rows.columns(piece.source) if isinstance(rows, ArrayRows) else None
            fragments = rows.take(piece) if isinstance(rows, _Partitions) else []
            key = f"npcov-{run}-{place}"
            places[key] = place
            return self._client.submit(
                _task, work, addresses, piece, columns, fragments, key=key, retries=_RETRIES, pure=False
            )

        try:
            # A few more than can run, so that none has to wait for the driver; not all, so that results do not pile up.
            running = {submit() for _ in range(min(len(pieces), 2 * self.slots()))}
            while running:
                future = self._first(running)
                running.remove(future)
                result = _outcome(self._client, future)
                if isinstance(result, BaseException):
                    result = Failed(f"{type(result).__name__}: {result}")
                place = places.pop(future.key)
                future.release()
                if waiting:
                    running.add(submit())
                yield place, result
        finally:
            for plugin in plugins:
                self._client.unregister_worker_plugin(plugin)

    def _first(self, running: set[Any]) -> Any:
        """One of the tasks that are done, when there is one."""
        from distributed import wait

        def ask(seconds: float) -> Any:
            return wait(list(running), timeout=seconds, return_when="FIRST_COMPLETED")

        return next(iter(_patiently(self._client, ask).done))
