"""What the driver does: it plans, collects and joins. It holds no more than labels and digests of the data."""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import os
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import _npcov, _options
from .._coverage import Coverage
from .._data import Data, _words
from .._graph import DecisionGraph
from .._model import Model
from .._npcov import version
from .._progress import Progress, warn, watching
from .._results import BadRow
from ..errors import DataError, ShardError
from . import store, worker
from .engine import Engine, Rows
from .worker import Failed, GraphFile, Job, Known, Made, Piece, Seen, Unseen, native

# Rows that tell where the numbers of data lie: as many as a process alone looks at.
_LOOKED_AT = 256

# Rows of the shards that parts are made of, which are never divided.
_SHARD = 512

# Parts for each task that runs at the same time: so many that a slow one is no matter.
_PARTS_EACH = 4

# The most shards of a part: what comes back of it is in the driver's memory for a moment.
_SHARDS_EACH = 8

# Rows for each task that clusters a part of a class.
_WORTH_DIVIDING = 1 << 15

# Bytes of the paths of a class that one worker clusters by k-means, and of those that are asked of one at a time where
# there are more.
_HELD, _BLOCK = 512 << 20, 32 << 20

# How often rows that turn out to be bad are left out, and what follows them is counted anew.
_ROUNDS = 5

# Bad rows that a message lists.
_LISTED = 10


@dataclass(frozen=True)
class Source:
    """Data that workers get rows of: a path that all of them see, or rows that the engine hands over."""

    path: str | None
    rows: Rows | None
    x: str | Sequence[str] | None = None
    y: str | None = None
    id: str | None = None
    name: str | None = None
    class_names: Sequence[str] | None = None


class _Survey:
    """All that is known of the rows of a source, from what workers saw of them."""

    def __init__(self, source: Source, reader: Model | DecisionGraph, count: int) -> None:
        self.source, self.reader, self.count = source, reader, count
        self.bad: dict[int, BadRow] = {}
        # Digests of blocks of rows, and all else.
        self.blocks, self.known = b"", Known()
        self.sample: list[tuple[str, Any]] = []
        self.sampled: list[int] = []

    @property
    def used(self) -> int:
        """How many rows are used."""
        return self.count - len(self.bad)

    def pieces(self, parts: int, rows: int | None = None) -> list[Piece]:
        """Parts of the rows that are used, or of the first of them; those that have no rows are left out."""
        rows = self.used if rows is None else rows
        left_out = sorted(self.bad)
        found = []
        for part in range(1, parts + 1):
            span = _npcov.part_rows(part, parts, rows)
            assert span is not None
            if span[0] < span[1]:
                source = (self._place(span[0], left_out), self._place(span[1] - 1, left_out) + 1)
                without = tuple(row for row in left_out if source[0] <= row < source[1])
                found.append(Piece(part, parts, span, source, without))
        return found

    @staticmethod
    def _place(row: int, left_out: list[int]) -> int:
        """Where a row that is used is among all."""
        for bad in left_out:
            if bad > row:
                break
            row += 1
        return row

    def add_bad(self, found: Sequence[tuple[int, str]]) -> None:
        for row, reason in found:
            name = row if self.source.rows is None else self.source.rows.id(row)
            self.bad[row] = BadRow(row, name, reason)

    def finish(self, seen: list[Seen], wanted: list[int]) -> None:
        """Puts together what workers saw, in the order of rows."""
        import numpy as np

        self.blocks = b"".join(part.blocks for part in seen)
        if self.source.path is not None:
            kept, start, used = [], 0, 0
            for end in [*sorted(self.bad), self.count]:
                if start < end:
                    kept.append((used, used + end - start, start))
                    used += end - start
                start = end + 1
            self.known = Known(kept)
            return
        first = seen[0].inputs
        for part in seen:
            if part.inputs != first:
                raise DataError(f"rows differ: some hold {_described(first)}, others {_described(part.inputs)}")
        labels = None
        if self.source.y is not None:
            labels = np.concatenate([np.asarray(part.labels) for part in seen])
        names = None if self.source.class_names is None else [str(n) for n in self.source.class_names]
        name = self.source.name or "arrays in memory"
        self.known = Known(None, (name, self.used, None, _words_of(labels, names)))
        samples = [dict(part.sample) for part in seen if part.sample]
        self.sample = [(input, np.concatenate([part[input] for part in samples])) for input, _, _ in first]
        self.sampled = wanted

    def samples(self) -> _npcov.Samples:
        """The rows as the driver has them: all of a path, or those that tell where numbers lie."""
        return worker.whole(self.reader, self.source.path, self.known, self.blocks, (self.sample, self.sampled))


def _words_of(labels: Any, names: list[str] | None) -> _npcov.Words:
    """Labels and names of classes. Labels that are whole numbers stay as narrow as workers made them."""
    if labels is None or labels.dtype.kind not in "iu" or labels.ndim != 1:
        return _words(labels, (names, None))
    here = labels.astype(labels.dtype.newbyteorder("="), copy=False)
    return array.array(here.dtype.char, here.tobytes()), names, None


def _described(inputs: list[tuple[str, list[int], str]]) -> str:
    return ", ".join(f"`{name}` of shape {shape} and type {kind}" for name, shape, kind in inputs)


class _Run:
    """One call of ``build`` or ``cover`` on an engine."""

    def __init__(
        self,
        engine: Engine,
        source: Source,
        job: Job,
        reader: Model | DecisionGraph,
        *,
        shards: int | None,
        threads: int,
        strict: bool,
        limit: int | None,
        told: Any,
    ) -> None:
        self.engine, self.source, self.job, self.reader = engine, source, job, reader
        self.threads, self.strict, self.limit, self.told = threads, strict, limit, told
        count = source.rows.count() if source.rows is not None else self._count()
        if count == 0:
            raise DataError("the data has no rows")
        self.survey = _Survey(source, reader, count)
        whole = -(-count // _SHARD)
        parts = min(whole, max(_PARTS_EACH * max(1, engine.slots()), -(-whole // _SHARDS_EACH)))
        self.parts = max(1, parts if shards is None else shards)
        # The graph, where some workers do not see it.
        self.sent: dict[str, GraphFile] = {}

    def _count(self) -> int:
        assert self.source.path is not None
        return native(self.reader).count(Data(self.source.path)._samples)

    def shared(self, **more: Any) -> dict[str, Any]:
        return {"job": self.job, "threads": self.threads, **more}

    @property
    def rows(self) -> int:
        """The rows that work is done on: those that are used, up to a limit."""
        return self.survey.used if self.limit is None else min(self.limit, self.survey.used)

    def look(self) -> None:
        """Has all rows looked at, until those that are left can all be read."""
        for _ in range(_ROUNDS):
            count = min(self.rows, _LOOKED_AT)
            wanted = [i * self.rows // count for i in range(count)]
            pieces = self.survey.pieces(self.parts)
            seen: dict[int, Seen] = {}
            shared = self.shared(wanted=tuple(wanted))
            for place, result in self._results(worker.look, shared, pieces):
                seen[place] = result
            bad = [row for part in seen.values() for row in part.bad]
            if not bad:
                self.survey.finish([seen[place] for place in sorted(seen)], wanted)
                return
            self.leave_out(bad)
        raise DataError(f"after {_ROUNDS} rounds there are still rows that cannot be used")

    def leave_out(self, bad: Sequence[tuple[int, str]]) -> None:
        """Counts rows anew without bad ones; in strict work, and where none is left, they are an error."""
        self.survey.add_bad(bad)
        listed = _listed([self.survey.bad[row] for row in sorted(self.survey.bad)])
        if self.strict:
            raise DataError(f"{len(self.survey.bad)} of {self.survey.count} rows cannot be used: {listed}")
        if self.survey.used == 0:
            raise DataError(f"no row can be used: {listed}")

    def _results(self, work: Any, shared: Mapping[str, Any], pieces: list[Piece]) -> Iterator[tuple[int, Any]]:
        failed: list[str] = []
        unseen: list[int] = []
        for place, result in self.engine.run(work, {**shared, **self.sent}, pieces, self.source.rows):
            if isinstance(result, Unseen):
                unseen.append(place)
            elif isinstance(result, Failed):
                start, end = pieces[place].source
                failed.append(f"rows {start} to {end - 1}: {result.reason}")
            else:
                yield place, result
        if unseen:
            assert self.job.graph is not None and not self.sent
            self.sent = {"graph": self.job.graph}
            for place, result in self._results(work, shared, [pieces[place] for place in unseen]):
                yield unseen[place], result
        if failed:
            raise ShardError(
                f"{len(failed)} of {len(pieces)} parts failed: {'; '.join(failed[:_LISTED])}",
                "what is finished is kept: the same call goes on from there",
            )

    def make(self, work: Any, shared: Mapping[str, Any], pieces: list[Piece], folder: str) -> Iterator[list[str]]:
        """Has pieces worked on. Files are in ``folder`` when their names are given."""
        bad: list[tuple[int, str]] = []
        for place, made in self._results(work, shared, pieces):
            assert isinstance(made, Made)
            bad += made.bad
            for name, content in made.files.items():
                if content is None:
                    assert self.job.parts is not None
                    content = None if _same(self.job.parts, folder) else store.read(self.job.parts, name)
                if content is not None:
                    store.write(folder, name, content)
            if made.files:
                if self.told is not None:
                    start, end = pieces[place].rows
                    self.told("finished", end - start)
                yield list(made.files)
        if bad:
            self.leave_out(bad)
            raise _Again

    def spread(self, samples: _npcov.Samples, output: str, apart: _npcov.Samples | None) -> None:
        """Has classes clustered by k-means that are too large for one worker: all workers together, each of which holds
        some of their paths. Where workers do not see the files with these, nothing is done."""
        assert isinstance(self.reader, Model)
        of_path = sum(8 * -(-neurons // 64) for _, neurons in self.reader.layers)
        if self.engine.slots() == 1 or self.rows * of_path <= _HELD:
            return

        def ask(files: list[os.PathLike[str]], question: str) -> list[str] | None:
            pieces = [Piece(part, len(files), (0, 0), (0, 0)) for part in range(1, len(files) + 1)]
            shared = {"files": [os.path.abspath(file) for file in files], "question": question}
            answers = dict(self.engine.run(worker.answer, shared, pieces, None))
            are_all = all(isinstance(answer, str) for answer in answers.values())
            return [answers[place] for place in range(len(files))] if are_all else None

        model, flags = self.reader._model, self.job.flags
        _npcov.cluster_spread(model, samples, flags, output, _HELD, _BLOCK, ask, apart)

    def cluster(self, shared: Mapping[str, Any], output: str) -> None:
        """Has classes clustered where workers see the parts of all inputs. What is left of them is for the join."""
        assert isinstance(self.reader, Model)
        # A class that is no more than some blocks of inputs is not worth dividing.
        most = max(self.reader.classes, self.rows // _WORTH_DIVIDING)
        parts = min(most, max(1, self.engine.slots()))
        pieces = [Piece(part, parts, (0, 0), (0, 0)) for part in range(1, parts + 1)]
        sample = (self.survey.sample, self.survey.sampled)
        more = {"output": os.path.abspath(output), "sample": sample}
        for _ in self.engine.run(worker.cluster, {**shared, **more}, pieces, None):
            pass

    def warn_of_bad_rows(self, output: str | None) -> list[BadRow]:
        """Says which rows were left out, here and in a file beside the output."""
        bad = [self.survey.bad[row] for row in sorted(self.survey.bad)]
        if output is not None:
            beside, name = _beside(output, ".skipped.json")
            if bad:
                text = json.dumps([asdict(row) for row in bad], indent=1, default=str)
                store.write(beside, name, text.encode())
            else:
                store.remove(beside, name)
        if bad:
            warn([f"{len(bad)} of {self.survey.count} rows were left out: {_listed(bad)}"], stacklevel=3)
        return bad


class _Again(Exception):
    """Rows turned out to be bad while they were worked on: what is left is counted anew."""


def _listed(bad: list[BadRow]) -> str:
    shown = [f"row {row.id}: {row.reason}" for row in bad[:_LISTED]]
    more = len(bad) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _same(place: str, folder: str) -> bool:
    return not store.is_url(place) and os.path.abspath(place) == os.path.abspath(folder)


def _beside(output: str, ending: str) -> tuple[str, str]:
    """The folder of an output, and the name of a file beside it."""
    folder, _, name = output.rpartition("/")
    return (folder if folder or output.startswith("/") else ".") or "/", name + ending


def _options_of(model: Model) -> tuple[list[str] | None, dict[str, Any]]:
    names, named = _options.class_names(model._class_names)
    if named:
        assert model._class_names is not None
        with open(os.fspath(model._class_names), encoding="utf-8") as file:  # type: ignore[arg-type]
            names = [line.strip() for line in file.read().rstrip().splitlines()]
    return names, {key: value for key, value in model._options.items() if key != "threads"}


def _bytes_of(source: Any, files: Sequence[Any]) -> bytes | str:
    """A model to send: its bytes or, where it has several files, its name, which all workers must see."""
    if isinstance(source, bytes):
        return source
    if len(files) > 1:
        return str(os.path.abspath(os.fspath(files[0])))
    with open(files[0], "rb") as file:
        return file.read()


@contextlib.contextmanager
def _workplace(output: str | None) -> Iterator[str]:
    """A file of this machine for an output that may be elsewhere, or nowhere."""
    if output is not None and not store.is_url(output):
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="npcov-") as folder:
        path = os.path.join(folder, "result.npcov")
        yield path
        if output is not None and os.path.exists(path):
            store.upload(output, path)


def build(
    engine: Engine,
    model: Model,
    source: Source,
    *,
    calibration: Any = None,
    output: str | None = None,
    progress: Progress = None,
    shards: int | None = None,
    threads: int = 1,
    strict: bool = False,
    parts: str | None = None,
    options: Mapping[str, Any],
) -> DecisionGraph:
    """Learns a decision graph. What differs between engines is ``engine`` and where rows come from."""
    opened, flags = model._for("build", dict(options))
    names, kept = _options_of(opened)
    job = Job(
        model=_bytes_of(opened._source, opened._model.files),
        graph=None,
        class_names=names,
        preprocess=opened._preprocess,
        options=kept,
        flags=flags,
        path=None if source.path is None else os.path.abspath(source.path),
        x=source.x,
        y=source.y,
        id=source.id,
        calibration=calibration,
        parts=parts,
    )
    if source.path is not None and opened._preprocess is not None:
        raise TypeError("`preprocess` takes rows: give them as a dataset of the engine, or preprocess the files")
    limit = options.get("limit")
    with _workplace(output) as path, watching(progress, None, "build") as told:
        run = _Run(
            engine, source, job, opened, shards=shards, threads=threads, strict=strict, limit=limit, told=told
        )
        folder = path + ".parts"
        if parts is not None and not _same(parts, folder):
            _fetch(parts, folder, ".safetensors")
        apart, known_apart = None, None
        if calibration is not None:
            data = opened._data(calibration, None)._samples
            count = opened._model.count(data)
            blocks, bad = _npcov.look(opened._model, data, (0, count), threads)
            if bad:
                raise DataError(f"calibration, row {bad[0][0]}: {bad[0][1]}")
            known_apart = ([(0, count, 0)], blocks)
            apart = _npcov.excerpt(opened._model, data, *known_apart)
        for _ in range(_ROUNDS):
            run.look()
            samples = run.survey.samples()
            missing, missing_apart = _npcov.missing_parts(opened._model, samples, flags, path, apart)
            pieces = run.survey.pieces(run.parts, run.rows)
            starts = sorted(start for start, _ in missing)
            wanted = [p for p in pieces if bisect_left(starts, p.rows[0]) < bisect_left(starts, p.rows[1])]
            # Inputs for calibration are divided by the same rule.
            if missing_apart:
                wanted = pieces
            shared = run.shared(known=run.survey.known, blocks=run.survey.blocks, calibration=known_apart)
            if told is not None and len(wanted) < len(pieces):
                told("resumed", _rows(pieces) - _rows(wanted))
            try:
                for _names in run.make(worker.build, shared, wanted, folder):
                    pass
                break
            except _Again:
                _remove_parts(folder)
        else:
            raise DataError(f"after {_ROUNDS} rounds there are still rows that cannot be used")
        run.spread(samples, path, apart)
        run.cluster(shared, path)
        graph, warnings = opened._model.build(samples, [*flags, "--join"], apart, path, told)
        warn(warnings)
        bad_rows = run.warn_of_bad_rows(output)
        if parts is not None:
            _remove_parts(parts)
        training = _unseen(source)
        if output is not None and not store.is_url(output):
            found = DecisionGraph._of(graph, opened, output, training)
        else:
            # An open graph keeps its file.
            found = DecisionGraph(path, job.model, class_names=names, preprocess=opened._preprocess)
            found._file = None
    found.skipped = bad_rows
    return found


def _rows(pieces: Sequence[Piece]) -> int:
    return sum(piece.rows[1] - piece.rows[0] for piece in pieces)


def _remove_parts(place: str) -> None:
    """Removes parts of a graph and their plan, and nothing else that lies there."""
    for name in store.names(place):
        is_part = name.startswith(("paths-", "calibration-", "clusters-")) and name.endswith(".safetensors")
        if is_part or name == "plan.json":
            store.remove(place, name)


def _unseen(source: Source) -> Data:
    """Training data as a graph remembers it: for pictures, where it is a path."""
    if source.path is not None:
        return Data(source.path)
    data = object.__new__(Data)
    data._is_spooled = True
    return data


def _fetch(place: str, folder: str, ending: str) -> None:
    """Files that an earlier driver left where workers put them."""
    for name in store.names(place):
        if name.endswith(ending) and not os.path.exists(os.path.join(folder, name)):
            content = store.read(place, name)
            if content is not None:
                store.write(folder, name, content)


@contextlib.contextmanager
def _placed(graph: DecisionGraph) -> Iterator[GraphFile]:
    """The file of a graph; one for now, where it is in memory."""
    with tempfile.TemporaryDirectory(prefix="npcov-") as scratch:
        path = graph._file
        if path is None:
            path = os.path.join(scratch, "graph.npcov")
            graph._graph.save(path)
        yield GraphFile(os.path.abspath(path), graph.id, os.path.getsize(path))


def cover(
    engine: Engine,
    graph: DecisionGraph,
    source: Source,
    *,
    name: str | None = None,
    earlier: Coverage | None = None,
    output: str | None = None,
    progress: Progress = None,
    shards: int | None = None,
    threads: int = 1,
    strict: bool = False,
    parts: str | None = None,
    options: Mapping[str, Any],
) -> Coverage:
    """Measures a suite. What differs between engines is ``engine`` and where rows come from."""
    given = dict(options)
    limit = given.pop("limit", None)
    if "shard" in given:
        raise TypeError("`shard` is no option here: `shards` says into how many parts rows are divided")
    flags = graph._flags("cover", given)
    names, named = _options.class_names(graph._class_names)
    kept = {key: value for key, value in graph._options.items() if key != "threads"}
    if named:
        kept["class_names"] = os.fspath(graph._class_names)  # type: ignore[arg-type]
    suite = name or os.path.basename(source.path or source.name or "arrays in memory")
    job = Job(
        model=_bytes_of(graph._model, graph._graph.model_files),
        graph=None,
        class_names=names,
        preprocess=graph._preprocess,
        options=kept,
        flags=flags,
        path=None if source.path is None else os.path.abspath(source.path),
        x=source.x,
        y=source.y,
        id=source.id,
        suite=suite,
        parts=parts,
    )
    if source.path is not None and graph._preprocess is not None:
        raise TypeError("`preprocess` takes rows: give them as a dataset of the engine, or preprocess the files")
    with _placed(graph) as file, _workplace(output) as path, watching(progress, None, "cover") as told:
        job = replace(job, graph=file)
        run = _Run(
            engine, source, job, graph, shards=shards, threads=threads, strict=strict, limit=limit, told=told
        )
        folder = path + ".parts"
        for _ in range(_ROUNDS):
            run.look()
            plan = _plan(graph, job, run.survey)
            if parts is not None and not _same(parts, folder):
                _fetch(parts, folder, ".npcov")
            pieces = run.survey.pieces(run.parts, run.rows)
            union, wanted = _npcov.CoverageUnion(), []
            if earlier is not None:
                union.add(_kept(earlier, folder))
            for piece in pieces:
                found = _state(folder, worker.state_name(plan, piece.rows))
                if found is None:
                    wanted.append(piece)
                else:
                    union.add(found)
            shared = run.shared(known=run.survey.known, blocks=run.survey.blocks, plan=plan)
            if told is not None and len(wanted) < len(pieces):
                told("resumed", _rows(pieces) - _rows(wanted))
            try:
                for made in run.make(worker.cover, shared, wanted, folder):
                    for state in made:
                        union.add(os.path.join(folder, state))
                break
            except _Again:
                continue
        else:
            raise DataError(f"after {_ROUNDS} rounds there are still rows that cannot be used")
        union.finish(path)
        # A file that is open can be read also where it is removed before.
        measured = _npcov.CoverageFile(path)
        for place in {folder, *([] if parts is None else [parts])}:
            for state in store.names(place):
                if state.startswith("state-") and state.endswith(".npcov"):
                    store.remove(place, state)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        bad_rows = run.warn_of_bad_rows(output)
    seen = [] if source.path is None else [Data(source.path)]
    coverage = Coverage._of(measured, graph, kept=seen + ([] if earlier is None else earlier._kept))
    coverage.skipped = bad_rows
    return coverage


def _plan(graph: DecisionGraph, job: Job, survey: _Survey) -> str:
    """What coverage of parts depends on."""
    name, rows, shape, (labels, *names) = survey.known.whole or ("", 0, None, (None, None, None))
    whole = (name, rows, shape, names, survey.known.kept)
    words = (graph.id, job.flags, job.suite, job.options, job.class_names, version, whole)
    found = hashlib.sha256(repr(words).encode())
    found.update(labels if isinstance(labels, array.array) else repr(labels).encode())
    found.update(survey.blocks)
    return found.hexdigest()


def _state(folder: str, name: str) -> str | None:
    """The coverage of a part that an earlier driver left, if it is whole."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    try:
        _npcov.Coverage.open(path)
    except Exception:  # Damaged: it is made again.
        return None
    return path


def _kept(earlier: Coverage, folder: str) -> str:
    """A file of coverage that parts are added to; it is removed with them."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "state-earlier.npcov")
    earlier._coverage.save(path)
    return path
