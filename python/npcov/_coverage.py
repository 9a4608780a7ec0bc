"""What suites cover."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _npcov, _options
from ._data import Data, Spool, as_data, preprocessed
from ._progress import Progress, warn, watching
from ._results import BadRow, Check, Gaps, Report
from .errors import ArtefactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._graph import DecisionGraph
    from ._model import StrPath


class Coverage:
    """What suites cover of a decision graph: measured once, it can be reported, compared, merged and kept.

    :meth:`DecisionGraph.cover` measures; this opens a file that it, or the command line, wrote.
    """

    _measured: _npcov.Coverage | None
    _graph: DecisionGraph | None
    #: Rows of suites that distributed work left out.
    skipped: Sequence[BadRow] = ()

    def __init__(self, path: StrPath, graph: DecisionGraph | None = None) -> None:
        self._measured = _npcov.Coverage.open(os.fspath(path))
        self._graph = graph
        self._name, self._options = "suite", dict[str, Any]()
        self._spool: Spool | None = None
        self._kept: list[Data] = []

    @classmethod
    def _of(
        cls,
        coverage: _npcov.Coverage | None,
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
        assert self._measured is not None
        return self._measured

    def update(self, x: Any, y: Any = None) -> None:
        """Takes a batch of an evaluation loop. Its rows wait in a temporary file until they are measured."""
        if self._graph is None:
            raise ArtefactError("coverage from a file needs its graph to go on: `Coverage(path, graph)`")
        if self._spool is None:
            self._spool = Spool()
        preprocess = self._graph._preprocess
        self._spool.append(x if preprocess is None else preprocessed(preprocess, x), y)

    def compute(self, progress: Progress = None) -> Coverage:
        """Measures what :meth:`update` has taken, as :meth:`DecisionGraph.cover` would all at once."""
        if self._spool is None:
            if self._measured is None:
                raise ArtefactError("nothing is measured yet: `update` takes batches")
            return self
        assert self._graph is not None
        samples = self._spool.finish("batches")
        on, flags = self._graph._for("cover", self._options)
        with watching(progress, len(samples), "cover") as told:
            suites = [(self._name, samples)]
            coverage, warnings = on._graph.cover(suites, flags, self._measured, None, told)
        self.reset()
        self._measured = coverage
        warn(warnings)
        return self

    def reset(self) -> None:
        """Forgets everything."""
        if self._spool is not None:
            self._spool.close()
        self._spool, self._measured = None, None

    def __del__(self) -> None:
        spool = self.__dict__.get("_spool")
        if spool is not None:
            spool.close()

    @property
    def suites(self) -> dict[str, int]:
        """Its suites, each with its number of inputs."""
        return dict(self._coverage.suites)

    def save(self, path: StrPath) -> None:
        """Writes it to a file, whole or not at all: the same that the command line reads and writes."""
        self._coverage.save(os.fspath(path))

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What is known of every input, as ``--inputs`` writes it: cluster, scores, and more."""
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "inputs.npz")
            self._coverage.write_inputs(path)
            with np.load(path, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}

    def with_class_shares(self, shares: Any) -> Coverage:
        """The same, where classes should be as frequent as that: ``"training"``, ``"balanced"``, or numbers."""
        words = shares if isinstance(shares, str) else ",".join(_options.word(s) for s in shares)
        return Coverage._of(self._coverage.with_class_shares(words), self._graph, kept=self._kept)

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
        """Whether rules hold: ``fail_under={"snpc": "0.8*random"}``, ``fail_on_thin=True``, ..."""
        coverage, earlier = _expecting(self, against, class_shares)
        _, found = coverage.check(_options.flags("check", options), earlier)
        return Check(found)

    def gaps(self, pool: Any = None, **options: Any) -> Gaps:
        """What the suites are missing; see :meth:`DecisionGraph.gaps`."""
        if self._graph is None:
            raise ArtefactError(
                "a coverage state does not hold its graph", "`graph.gaps(coverage)`, or `Coverage(path, graph)`"
            )
        return self._graph.gaps(self, pool, **options)

    def merge(self, *others: Coverage | StrPath, name: str | None = None) -> Coverage:
        """All together, as if measured at once; with ``name``, as one suite."""
        found = [opened(other) for other in others]
        merged = self._coverage.merged([other._coverage for other in found], name)
        kept = [data for coverage in (self, *found) for data in coverage._kept]
        return Coverage._of(merged, self._graph, kept=kept)

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


def merge(*coverages: Coverage | StrPath, name: str | None = None) -> Coverage:
    """Unites coverage of one decision graph."""
    if not coverages:
        raise ArtefactError("there is nothing to merge")
    first, *others = coverages
    return opened(first).merge(*others, name=name)
