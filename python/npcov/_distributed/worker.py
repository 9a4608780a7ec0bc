"""What workers do: functions of a piece of the data, which may be called twice and then do the same."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from .. import _npcov
from .._data import Data, array
from .._graph import DecisionGraph
from .._model import Model
from ..errors import DataError, NpcovError
from . import store

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows by columns, as engines hand them over.
Columns = dict[str, Any]

# First row, and the one behind the last.
Span = tuple[int, int]

# Rows that a callable for preprocessing gets at a time, as everywhere.
_ROWS = 256

# Models and graphs that a worker keeps ready.
_READY = 2

# Bytes of a graph's file that are sent at a time: what a driver holds of it.
_SENT = 64 << 20

# Bytes of other things that are sent at a time, which a driver holds several times on their way.
_CUT = 1 << 17


@dataclass(frozen=True)
class Piece:
    """Which rows a task works on."""

    # Part `part` of `parts`; the first one is 1.
    part: int
    parts: int
    # Its rows among those that are used.
    rows: Span
    # The same among all: more, where there are bad ones between them.
    source: Span
    # Rows of `source` that are left out.
    without: tuple[int, ...] = ()

    def numbers(self) -> list[int]:
        """The rows among all, one by one."""
        left_out = set(self.without)
        return [row for row in range(*self.source) if row not in left_out]


@dataclass(frozen=True)
class GraphFile:
    """A graph, which workers open where it lies. Those that do not see it there are sent its bytes."""

    path: str
    id: str
    size: int

    def slices(self) -> list[Slice]:
        """All of its bytes, some at a time."""
        starts = range(0, self.size, _SENT)
        return [Slice(f"{_GRAPH}/{i}", f"{self.id}/{start}", self.path, start) for i, start in enumerate(starts)]


@dataclass(frozen=True)
class Slice:
    """Some bytes of a file, read when they are sent. They are known by what they belong to."""

    name: str
    digest: str
    path: str
    start: int

    @property
    def content(self) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return file.read(_SENT)


@dataclass(frozen=True)
class Cut:
    """Some of the bytes that a driver has, copied when they are sent."""

    name: str
    digest: str
    whole: bytes
    start: int

    @property
    def content(self) -> bytes:
        return self.whole[self.start : self.start + _CUT]


# The graph among what tasks share, where its bytes are sent; those are called `graph/NUMBER`, as those of other bytes.
_GRAPH = "graph"


class UnseenError(Exception):
    """A worker does not see the graph, and was not sent it."""


@dataclass(frozen=True)
class Unseen:
    """A task that has to wait until the graph is sent."""


@dataclass(frozen=True)
class Job:
    """What all tasks have in common."""

    # The model's file in bytes, or its name where it has several.
    model: bytes | str
    graph: GraphFile | None
    class_names: list[str] | None
    preprocess: Callable[[Any], Any] | None
    options: dict[str, Any]
    # Options of the verb, as flags.
    flags: list[str]
    # A file or folder that every worker sees; without it, rows are handed over.
    path: str | None
    # The columns of rows.
    x: str | Sequence[str] | None
    y: str | None
    id: str | None
    calibration: Any = None
    suite: str = ""
    # Where parts go, if not through the engine.
    parts: str | None = None


@dataclass(frozen=True)
class Known:
    """What is known of all rows that are used, beside the digests of their blocks."""

    # Of a path: runs of rows that are kept. Of rows: what they are together.
    kept: list[tuple[int, int, int]] | None = None
    whole: tuple[str, int, list[int] | None, _npcov.Words] | None = None


@dataclass
class Seen:
    """What a worker saw of its rows."""

    blocks: bytes = b""
    # Rows among all, with why they cannot be used.
    bad: list[tuple[int, str]] = field(default_factory=list)
    labels: Any = None
    inputs: list[tuple[str, list[int], str]] = field(default_factory=list)
    # The numbers of the rows that were asked for.
    sample: list[tuple[str, Any]] = field(default_factory=list)
    # Bytes of the rows that the engine handed over.
    traffic: int = 0


@dataclass
class Made:
    """What a worker made of its rows: files by name, or what is wrong with rows."""

    files: dict[str, bytes | None] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)


_ready: dict[str, Union[Model, DecisionGraph]] = {}

# What tasks share, by digest.
_parcels: dict[str, Any] = {}

# Parcels that a worker keeps.
_PARCELS = 8


@dataclass(frozen=True)
class Parcel:
    """Something that all tasks share, packed."""

    name: str
    digest: str
    content: bytes


def parcels(shared: Mapping[str, Any]) -> list[Parcel | Slice | Cut]:
    """What tasks share, packed once. A graph that is sent, and bytes, are as they are, in slices."""
    try:
        import cloudpickle as pickling
    except ImportError:
        import pickle as pickling
    found: list[Parcel | Slice | Cut] = []
    for name, value in shared.items():
        if isinstance(value, GraphFile):
            found += value.slices()
        elif isinstance(value, bytes):
            for start in range(0, len(value), _CUT):
                digest = hashlib.sha256(memoryview(value)[start : start + _CUT]).hexdigest()
                found.append(Cut(f"{name}/{start // _CUT}", digest, value, start))
        else:
            content = pickling.dumps(value)
            found.append(Parcel(name, hashlib.sha256(content).hexdigest(), content))
    return found


def unpacked(addresses: Mapping[str, str], fetch: Callable[[str], bytes]) -> dict[str, Any]:
    """What tasks share, by name, from its digests: fetched and opened once in each worker process."""
    sliced: dict[str, list[str]] = {}
    for name, digest in addresses.items():
        sliced.setdefault(name.partition("/")[0], []).append(digest)
    slices = sliced.pop(_GRAPH, None)
    # It is more than memory may hold.
    found: dict[str, Any] = {_GRAPH: None if slices is None else map(fetch, slices)}
    for name, digests in sliced.items():
        key = "".join(digests)
        if key not in _parcels:
            content = b"".join(map(fetch, digests))
            while len(_parcels) >= _PARCELS:
                del _parcels[next(iter(_parcels))]
            _parcels[key] = content if f"{name}/0" in addresses else pickle.loads(content)
        found[name] = _parcels[key]
    return {**found, "job_key": addresses.get("job")}


def _opened(shared: Mapping[str, Any]) -> Model | DecisionGraph:
    """The model or graph of a job: opened once in each worker process."""
    (key, job), threads = _job(shared), shared["threads"]
    name = f"{key}/{threads}"
    found = _ready.get(name)
    if found is None:
        while len(_ready) >= _READY:
            del _ready[next(iter(_ready))]
        options = {**job.options, "threads": threads}
        made: dict[str, Any] = {"class_names": job.class_names, "preprocess": job.preprocess}
        if job.graph is None:
            found = Model(job.model, **made, **options)
        else:
            found = _graph(job.graph, shared[_GRAPH], lambda path: DecisionGraph(path, job.model, **made, **options))
        _ready[name] = found
    return found


def _graph(
    graph: GraphFile, sent: Iterable[bytes] | None, open_at: Callable[[str], DecisionGraph]
) -> DecisionGraph:
    """A graph where it lies, or of the bytes that were sent."""
    if sees(graph):
        found = open_at(graph.path)
        if found.id == graph.id:
            return found
    if sent is None:
        raise UnseenError(graph.path)
    # An open graph keeps its file.
    with tempfile.TemporaryDirectory(prefix="npcov-") as folder:
        path = os.path.join(folder, "graph.npcov")
        with open(path, "wb") as file:
            for content in sent:
                file.write(content)
        found = open_at(path)
    if found.id != graph.id:
        raise DataError(f"`{graph.path}` changed while it was sent")
    return found


def sees(graph: GraphFile) -> bool:
    """Whether there is a file where a graph should be that may be it."""
    return os.path.isfile(graph.path) and os.path.getsize(graph.path) == graph.size


@functools.lru_cache(maxsize=_READY)
def _data(path: str) -> Data:
    """A file or folder that all workers see, opened once."""
    return Data(path)


@dataclass(frozen=True)
class Failed:
    """A task that cannot be done, however often it is tried."""

    reason: str


def attempt(
    work: Callable[..., Any],
    addresses: Mapping[str, str],
    fetch: Callable[[str], bytes],
    piece: Piece,
    columns: Columns | None,
) -> Any:
    """Does a task. What npcov says is wrong stays wrong and is a result; anything else is for the engine to try again."""
    try:
        return work(unpacked(addresses, fetch), piece, columns)
    except UnseenError:
        return Unseen()
    except NpcovError as error:
        return Failed(str(error))


def concatenated(parts: Sequence[Columns]) -> Columns:
    """Rows that follow each other."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def native(opened: Model | DecisionGraph) -> _npcov.Model | _npcov.DecisionGraph:
    """The object behind a model or a graph."""
    return opened._model if isinstance(opened, Model) else opened._graph


def _rows(job: Job, piece: Piece, columns: Columns) -> tuple[list[tuple[str, NDArray[Any]]], Any, list[tuple[int, str]]]:
    """The arrays of inputs, the labels, and rows that have no numbers, of rows that were handed over."""
    import numpy as np

    numbers = piece.numbers()
    bad: dict[int, str] = {}
    first = piece.source[0]
    places = [row - first for row in numbers]
    labels = None
    if job.y is not None:
        labels = _column(columns, job.y)[places]
        if labels.dtype.kind == "f":
            for place in np.flatnonzero(np.isnan(labels)):
                bad[numbers[place]] = "it has no label"
    names = names_of_inputs(job, columns)
    inputs: list[tuple[str, NDArray[Any]]] = []
    for name in names:
        values, missing = _stacked(_column(columns, name)[places])
        inputs.append((name, values))
        bad.update({numbers[place]: f"`{name}` {reason}" for place, reason in missing})
    if all(values.ndim == 1 for _, values in inputs):
        # A table, whose numbers are those that its file would be read as.
        inputs = [(name, values.astype(np.float64)) for name, values in inputs]
    elif len(inputs) == 1:
        inputs = [("x", inputs[0][1])]
    if job.preprocess is not None:
        if len(inputs) != 1:
            raise DataError("`preprocess` takes one input, and these are several")
        whole = inputs[0][1]
        chunks = [whole[start : start + _ROWS] for start in range(0, len(whole), _ROWS)]
        inputs = [("x", np.concatenate([array(job.preprocess(chunk)) for chunk in chunks]))]
    return inputs, labels, sorted(bad.items())


def names_of_inputs(job: Job, columns: Mapping[str, Any]) -> list[str]:
    """The columns that inputs are made of."""
    if isinstance(job.x, str):
        return [job.x]
    if job.x is not None:
        return [str(name) for name in job.x]
    return [name for name in columns if name not in (job.y, job.id)]


def _column(columns: Columns, name: str) -> NDArray[Any]:
    import numpy as np

    if name not in columns:
        raise DataError(f"there is no column `{name}`; there are {', '.join(map(str, columns))}")
    return np.asarray(columns[name])


def _stacked(values: NDArray[Any]) -> tuple[NDArray[Any], list[tuple[int, str]]]:
    """One array of a column, and the places of rows that are missing or have another shape than most."""
    import numpy as np

    if values.dtype != object:
        return array(values), []
    rows = [None if value is None else np.asarray(value) for value in values]
    shapes = [None if row is None or row.dtype.kind not in "biuf" else row.shape for row in rows]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return np.zeros(len(rows)), [(place, "is no number") for place in range(len(rows))]
    usual = max(set(known), key=known.count)
    bad = [
        (place, "is missing" if rows[place] is None else f"has the shape {shape}, others {usual}")
        for place, shape in enumerate(shapes)
        if shape != usual
    ]
    kind = np.result_type(*{row.dtype for row, shape in zip(rows, shapes) if row is not None and shape == usual})
    empty = np.zeros(usual, kind)
    whole: list[Any] = [row if shape == usual else empty for row, shape in zip(rows, shapes)]
    return np.stack(whole).astype(kind, copy=False), bad


def look(shared: Mapping[str, Any], piece: Piece, columns: Columns | None) -> Seen:
    """Digests of a piece's rows, rows that cannot be used, labels, and the numbers of the rows that are wanted."""
    _, job = _job(shared)
    threads = shared["threads"]
    reader = native(_opened(shared))
    numbers = piece.numbers()
    start, end = piece.rows
    if job.path is not None:
        data = _data(job.path)._samples
        at = [(row, row + 1) for row in numbers]
        data = _npcov.excerpt(reader, data, [(0, b - a, a) for a, b in joined(at)])
        blocks, bad = _npcov.look(reader, data, (0, end - start), threads)
        return Seen(blocks, [(numbers[row], reason) for row, reason in bad], None, data.inputs)
    assert columns is not None
    inputs, labels, missing = _rows(job, piece, columns)
    samples = _npcov.Samples.arrays("rows", inputs, (None, None, None))
    blocks, bad = _npcov.look(reader, samples, (0, len(numbers)), threads)
    found = {**{numbers[row]: reason for row, reason in bad}, **dict(missing)}
    places = [row - start for row in shared["wanted"] if start <= row < end]
    return Seen(
        blocks,
        sorted(found.items()),
        _narrow(labels),
        samples.inputs,
        [(name, values[places]) for name, values in inputs],
        sum(values.nbytes for _, values in inputs),
    )


def _narrow(labels: Any) -> Any:
    """Labels in as few bytes as they need: the driver has those of all rows."""
    import numpy as np

    if labels is None or labels.dtype.kind != "i" or labels.size == 0:
        return labels
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= labels.min() and labels.max() <= np.iinfo(kind).max:
            return labels.astype(kind)
    return labels


def joined(spans: Sequence[Span]) -> list[Span]:
    """The same rows, with neighbours in one span."""
    found: list[Span] = []
    for start, end in spans:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def build(shared: Mapping[str, Any], piece: Piece, columns: Columns | None) -> Made:
    """The files that ``build --shard`` makes of a piece."""
    _, job = _job(shared)
    model = _opened(shared)
    assert isinstance(model, Model)
    samples = _samples(shared, job, model, piece, columns)
    apart = _calibration(shared, job, model)
    with tempfile.TemporaryDirectory(prefix="npcov-") as folder:
        output = os.path.join(folder, "graph.npcov")
        part = (piece.part, piece.parts)
        try:
            _npcov.build_part(model._model, samples, job.flags, part, output, apart)
        except NpcovError as error:
            return _reason(error, model, samples, piece, shared["threads"])
        made = output + ".parts"
        names = sorted(name for name in os.listdir(made) if name.endswith(".safetensors"))
        return Made({name: store.hand_over(job.parts, name, os.path.join(made, name)) for name in names})


def _calibration(shared: Mapping[str, Any], job: Job, model: Model) -> _npcov.Samples | None:
    if job.calibration is None:
        return None
    data = model._data(job.calibration, None)._samples
    return _npcov.excerpt(model._model, data, *shared["calibration"])


def cluster(shared: Mapping[str, Any], piece: Piece, columns: Columns | None) -> Made:
    """Clusters part ``piece`` of the classes, where this worker sees the parts of all inputs. Else it does nothing:
    the driver clusters what nobody did."""
    _, job = _job(shared)
    output = shared["output"]
    if os.path.isdir(output + ".parts"):
        model = _opened(shared)
        assert isinstance(model, Model)
        samples = whole(model, job.path, shared["known"], shared["blocks"], shared["sample"])
        flags = [*job.flags, f"--shard-classes={piece.part}/{piece.parts}"]
        # A folder of that name with other parts is that of another machine.
        with contextlib.suppress(NpcovError):
            model._model.build_part(samples, flags, _calibration(shared, job, model), output)
    return Made()


def answer(shared: Mapping[str, Any], piece: Piece, columns: Columns | None) -> str | None:
    """What is asked of the points in file ``piece`` of a class, where this worker sees them."""
    file = shared["files"][piece.part - 1]
    return _npcov.answer_block(file, shared["question"]) if os.path.isfile(file) else None


def whole(
    opened: Model | DecisionGraph,
    path: str | None,
    known: Known,
    blocks: bytes,
    sample: tuple[list[tuple[str, Any]], list[int]],
) -> _npcov.Samples:
    """The rows as one process knows them that has none: all of a path, or those that tell where numbers lie."""
    reader = native(opened)
    if path is not None:
        assert known.kept is not None
        return _npcov.excerpt(reader, _data(path)._samples, known.kept, blocks)
    assert known.whole is not None
    values, rows = sample
    local = _npcov.Samples.arrays(known.whole[0], values, (None, None, None))
    runs = [(row, row + 1, place) for place, row in enumerate(rows)]
    return _npcov.excerpt(reader, local, runs, blocks, known.whole)


def cover(shared: Mapping[str, Any], piece: Piece, columns: Columns | None) -> Made:
    """The coverage of a piece."""
    _, job = _job(shared)
    graph = _opened(shared)
    assert isinstance(graph, DecisionGraph)
    samples = _samples(shared, job, graph, piece, columns)
    try:
        found = _npcov.cover_part(graph._graph, job.suite, samples, piece.rows, job.flags)
    except NpcovError as error:
        return _reason(error, graph, samples, piece, shared["threads"])
    with tempfile.TemporaryDirectory(prefix="npcov-") as folder:
        output = os.path.join(folder, "state.npcov")
        found.save(output)
        name = state_name(shared["plan"], piece.rows)
        return Made({name: store.hand_over(job.parts, name, output)})


def state_name(plan: str, rows: Span) -> str:
    """What the coverage of some rows is called, by what it was measured with."""
    return f"state-{plan[:16]}-{rows[0]:012}-{rows[1]:012}.npcov"


def _job(shared: Mapping[str, Any]) -> tuple[str, Job]:
    return shared["job_key"], shared["job"]


def _samples(
    shared: Mapping[str, Any], job: Job, opened: Model | DecisionGraph, piece: Piece, columns: Columns | None
) -> _npcov.Samples:
    """The rows of a piece, as rows of the whole."""
    known: Known = shared["known"]
    blocks: bytes = shared["blocks"]
    reader = native(opened)
    if job.path is not None:
        assert known.kept is not None
        return _npcov.excerpt(reader, _data(job.path)._samples, known.kept, blocks)
    assert columns is not None and known.whole is not None
    inputs, _, _ = _rows(job, piece, columns)
    local = _npcov.Samples.arrays(known.whole[0], inputs, (None, None, None))
    return _npcov.excerpt(reader, local, [(*piece.rows, 0)], blocks, known.whole)


def _reason(
    error: NpcovError, opened: Model | DecisionGraph, samples: _npcov.Samples, piece: Piece, threads: int
) -> Made:
    """The rows that made work fail; where there is none, the error itself."""
    bad = _npcov.bad_rows(native(opened), samples, piece.rows, threads)
    if not bad:
        raise error
    numbers = piece.numbers()
    return Made(bad=[(numbers[row - piece.rows[0]], reason) for row, reason in bad])
