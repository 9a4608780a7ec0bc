"""What suites cover."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _npcov, _options
from ._data import Data, Spool, as_data, is_pair, preprocessed
from ._progress import Progress, warn, watching
from ._results import BadRow, Check, Gaps, Mutation, Report, StrPath
from .errors import ArtefactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._graph import DecisionGraph


class Coverage:
    """What suites cover of a decision graph: measured once, it can be reported, compared, merged and kept.

    :meth:`DecisionGraph.cover` measures; this opens a file that it, or the command line, wrote. With its ``graph`` it can
    take more inputs, and say what is missing.

    >>> coverage = graph.cover(x[:60], y[:60], name="test")
    >>> coverage.save("test.npcov")
    >>> Coverage("test.npcov") == coverage
    True
    """

    # What was measured, or its file, which is read when it is first needed.
    _measured: _npcov.Coverage | _npcov.CoverageFile | None
    _graph: DecisionGraph | None
    #: Rows of suites that distributed work left out.
    skipped: Sequence[BadRow] = ()

    def __init__(self, path: StrPath, graph: DecisionGraph | None = None) -> None:
        measured = _npcov.Coverage.open(os.fspath(path))
        self._measured, self._graph = measured, graph
        self._name, self._options = _only(measured), dict[str, Any]()
        self._spool: Spool | None = None
        self._kept: list[Data] = []

    @classmethod
    def _of(
        cls,
        coverage: _npcov.Coverage | _npcov.CoverageFile | None,
        graph: DecisionGraph | None,
        name: str = "suite",
        options: dict[str, Any] | None = None,
        kept: list[Data] | None = None,
    ) -> Coverage:
        made = object.__new__(cls)
        made._measured, made._graph, made._spool = coverage, graph, None
        made._name, made._options = name, dict(options or {})
        # The suites, for pictures.
        made._kept = kept or []
        return made

    @property
    def _coverage(self) -> _npcov.Coverage:
        if self._spool is not None or self._measured is None:
            self.compute()
        measured = self._read()
        assert measured is not None
        return measured

    def _read(self) -> _npcov.Coverage | None:
        """What was measured, without batches that wait."""
        if isinstance(self._measured, _npcov.CoverageFile):
            self._measured = self._measured.read()
        return self._measured

    def update(self, x: Any, y: Any = None) -> None:
        """Takes a batch of an evaluation loop: ``x`` and ``y``, or both as one pair, as loaders give them.

        Its rows wait in a temporary file until they are measured. They belong to the suite that :meth:`DecisionGraph.cover`
        has measured before, and are measured with its options.

        >>> coverage = graph.empty_coverage("loop")
        >>> for batch in [(x[:30], y[:30]), (x[30:50], y[30:50])]:
        ...     coverage.update(batch)
        >>> coverage
        <npcov.Coverage: 50 inputs to be measured>
        >>> coverage.compute().suites
        {'loop': 50}
        """
        if self._graph is None:
            raise ArtefactError("coverage from a file needs its graph to go on: `Coverage(path, graph)`")
        if self._spool is None:
            self._spool = Spool()
        if y is None and is_pair(x):
            x, y = x
        preprocess = self._graph._preprocess
        self._spool.append(x if preprocess is None else preprocessed(preprocess, x), y)

    def compute(self, progress: Progress = None) -> Coverage:
        """Measures what :meth:`update` has taken, as :meth:`DecisionGraph.cover` would all at once.

        >>> coverage = graph.empty_coverage("loop")
        >>> coverage.update(x[:50], y[:50])
        >>> coverage.compute() == graph.cover(x[:50], y[:50], name="loop")
        True
        """
        if self._spool is None:
            if self._measured is None:
                raise ArtefactError("nothing is measured yet: `update` takes batches")
            return self
        assert self._graph is not None
        samples = self._spool.finish("batches")
        on, flags = self._graph._for("cover", self._options)
        with watching(progress, len(samples), "cover") as told:
            suites = [(self._name, samples)]
            coverage, warnings = on._graph.cover(suites, flags, self._read(), None, told)
        self.reset()
        self._measured = coverage
        warn(warnings)
        return self

    def reset(self) -> None:
        """Forgets everything.

        >>> coverage = graph.cover(x[:50], y[:50], name="loop")
        >>> coverage.reset()
        >>> coverage
        <npcov.Coverage: 0 inputs to be measured>
        """
        if self._spool is not None:
            self._spool.close()
        self._spool, self._measured = None, None

    def __del__(self) -> None:
        spool = self.__dict__.get("_spool")
        if spool is not None:
            spool.close()

    @property
    def suites(self) -> dict[str, int]:
        """Its suites, each with its number of inputs.

        >>> graph.cover({"first": (x[:30], y[:30]), "second": (x[30:50], y[30:50])}).suites
        {'first': 30, 'second': 20}
        """
        return dict(self._coverage.suites)

    def save(self, path: StrPath) -> None:
        """Writes it to a file, whole or not at all: the same that the command line reads and writes.

        >>> graph.cover(x[:50], y[:50], name="test").save("test.npcov")
        >>> Coverage("test.npcov", graph)
        <npcov.Coverage: test (50 inputs)>
        """
        self._coverage.save(os.fspath(path))

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What is known of every input, as ``--inputs`` writes it: cluster, scores, and more.

        >>> found = graph.cover(x[:50], y[:50]).inputs()
        >>> found["cluster"].shape, "unfamiliar.p" in found
        ((50,), True)
        """
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "inputs.npz")
            self._coverage.write_inputs(path)
            with np.load(path, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}

    def with_class_shares(self, shares: Any) -> Coverage:
        """The same, where classes should be as frequent as that: ``"training"``, ``"balanced"``, or numbers.

        >>> coverage = graph.cover(x[:50], y[:50])
        >>> coverage.with_class_shares("balanced").suites == coverage.suites
        True
        """
        expecting = self._coverage.with_class_shares(_options.words(shares))
        return Coverage._of(expecting, self._graph, self._name, self._options, self._kept)

    def report(
        self,
        *,
        against: Coverage | StrPath | None = None,
        class_shares: Any = None,
        data: Any = None,
        pool: Any = None,
        progress: Progress = None,
        **options: Any,
    ) -> Report:
        """What the suites cover, beside yardsticks, and what changed since an earlier coverage.

        ``html="folder"`` writes pages with pictures, ``single_file="report.html"`` one page. They show training data
        and suites that are still in memory, or their files; ``data`` is other such data, or a list of :class:`Data`,
        and ``pool`` data that gaps may be filled from.

        >>> earlier, later = (graph.cover(x[:n], y[:n], name="test", criteria=["snpc"]) for n in (50, 80))
        >>> found = later.report(against=earlier)
        >>> found.suites[0].inputs, list(found.suites[0].criteria)
        (80, ['snpc'])
        """
        flags = _options.flags("report", options)
        coverage, earlier = _expecting(self, against, class_shares)
        if data is not None or pool is not None or "html" in options or "single_file" in options:
            shown = data if isinstance(data, list) and all(isinstance(d, Data) for d in data) else [data]
            preprocess = None if self._graph is None else self._graph._preprocess
            seen = [as_data(d, preprocess=preprocess) for d in shown if d is not None]
            seen += self._kept if self._graph is None else self._graph._held(self)
            offered = None if pool is None else as_data(pool, preprocess=preprocess)
            with watching(progress, None, "report") as told:
                found = coverage.report(
                    flags,
                    earlier,
                    None if self._graph is None else self._graph._graph,
                    [d._samples for d in seen],
                    None if offered is None else offered._samples,
                    told,
                )
        else:
            found = coverage.report(flags, earlier)
        warn(found[0][2])
        return Report(found)

    def check(self, *, against: Coverage | StrPath | None = None, class_shares: Any = None, **options: Any) -> Check:
        """Whether rules hold: ``fail_under={"snpc": "0.8*random"}``, ``fail_on_thin=True`` (or ``"clusters"``), ...

        >>> coverage = graph.cover(x[:50], y[:50])
        >>> bool(coverage.check(fail_under={"accuracy": 0.99}))
        False
        """
        coverage, earlier = _expecting(self, against, class_shares)
        _, found = coverage.check(_options.flags("check", options), earlier)
        warn(found[0][2])
        return Check(found)

    def gaps(self, pool: Any = None, **options: Any) -> Gaps:
        """What the suites are missing; see :meth:`DecisionGraph.gaps`.

        >>> few = y[:200] < 9
        >>> sorted({gap.class_ for gap in graph.cover(x[:200][few], y[:200][few]).gaps().gaps})
        [9]
        """
        if self._graph is None:
            raise ArtefactError(
                "a coverage state does not hold its graph", "`graph.gaps(coverage)`, or `Coverage(path, graph)`"
            )
        return self._graph.gaps(self, pool, **options)

    def merge(self, *others: Coverage | StrPath, name: str | None = None) -> Coverage:
        """All together, as if measured at once; with ``name``, as one suite.

        >>> parts = [graph.cover(x[:60], y[:60], name="test", shard=part) for part in ("1/2", "2/2")]
        >>> parts[0].merge(parts[1]) == graph.cover(x[:60], y[:60], name="test")
        True
        """
        found = [opened(other) for other in others]
        merged = self._coverage.merged([other._coverage for other in found], name)
        kept = [data for coverage in (self, *found) for data in coverage._kept]
        return Coverage._of(merged, self._graph, name or self._name, self._options, kept)

    def __or__(self, other: Coverage) -> Coverage:
        return self.merge(other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coverage) and self._coverage == other._coverage

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(Report(self._coverage.report([])))

    def __repr__(self) -> str:
        if self._measured is None or self._spool is not None:
            waiting = 0 if self._spool is None else self._spool.rows
            return f"<npcov.Coverage: {waiting} inputs to be measured>"
        suites = ", ".join(f"{name} ({inputs} inputs)" for name, inputs in self.suites.items())
        return f"<npcov.Coverage: {suites}>"

    def _repr_html_(self) -> str:
        return Report(self._coverage.report([]))._repr_html_()

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.npcov")
            self._coverage.save(path)
            with open(path, "rb") as file:
                return {"state": file.read(), "name": self._name, "options": self._options}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.npcov")
            with open(path, "wb") as file:
                file.write(kept["state"])
            self._measured = _npcov.Coverage.open(path)
        self._graph, self._spool, self._kept = None, None, []
        self._name, self._options = kept["name"], kept["options"]


def _only(coverage: _npcov.Coverage) -> str:
    """The suite that batches are added to: the only one that there is."""
    names = [name for name, _ in coverage.suites]
    return names[0] if len(names) == 1 else "suite"


def opened(coverage: Coverage | StrPath) -> Coverage:
    """Coverage, or that of a file."""
    if isinstance(coverage, Coverage):
        return coverage
    if isinstance(coverage, (str, os.PathLike)):
        return Coverage(coverage)
    raise TypeError(f"coverage, or the file of a coverage state, is needed, not `{type(coverage).__name__}`")


def _expecting(
    coverage: Coverage, against: Coverage | StrPath | None, shares: Any
) -> tuple[_npcov.Coverage, _npcov.Coverage | None]:
    against = None if against is None else opened(against)
    if shares is None:
        return coverage._coverage, None if against is None else against._coverage
    earlier = None if against is None else against.with_class_shares(shares)._coverage
    return coverage.with_class_shares(shares)._coverage, earlier


@overload
def merge(
    first: Coverage, /, *others: Coverage | StrPath, name: str | None = ..., output: StrPath | None = ...
) -> Coverage: ...


@overload
def merge(first: Mutation, /, *others: Mutation | StrPath, output: StrPath | None = ...) -> Mutation: ...


@overload
def merge(first: StrPath, /, *others: Any, name: str | None = ..., output: StrPath | None = ...) -> Any: ...


def merge(*states: Any, name: str | None = None, output: StrPath | None = None) -> Any:
    """Unites coverage of one decision graph, or what suites have killed of the same mutants; files of both, too. With
    ``output``, the result is written to that file.

    >>> halves = [graph.cover(x[i : i + 30], y[i : i + 30], name=str(i)) for i in (0, 30)]
    >>> merge(*halves, name="all").suites
    {'all': 60}
    """
    if not states:
        raise ArtefactError("there is nothing to merge")
    first, *others = states
    is_path = isinstance(first, (str, os.PathLike))
    if isinstance(first, Mutation) or (is_path and Mutation.is_file(first)):
        if name is not None:
            raise TypeError("`name` is for coverage")
        merged: Any = (Mutation.open(first) if is_path else first).merge(*others)
    else:
        merged = opened(first).merge(*others, name=name)
    if output is not None:
        merged.save(output)
    return merged
