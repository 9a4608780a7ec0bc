"""Decision graphs, and what suites can be held against them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from . import _npcov, _options
from ._coverage import Coverage, opened
from ._data import Data, fitted, from_the_end
from ._model import Model, _path, _source
from ._progress import Progress, warn, watching
from ._results import (
    BadRow,
    BuiltPart,
    Explanation,
    Explanations,
    Exported,
    Gaps,
    GraphInspection,
    Minimization,
    Selection,
    StrPath,
)
from .errors import ArtefactError


class DecisionGraph:
    """The decision logic of a model, learnt from its training data: what suites are measured against.

    :meth:`Model.build` learns one; this opens a file. The model is the one that the graph names, or ``model``.

    >>> graph = Model(fixture("mlp-matlab.onnx"), divide=255).build(fixture("fashion-1000.npz"), limit=200)
    >>> coverage = graph.cover(fixture("fashion-1000.npz"), limit=50)
    >>> coverage.report().suites[0].inputs
    50
    """

    _graph: _npcov.DecisionGraph
    _model: Any
    _file: str | None
    #: Rows of the training data that distributed work left out.
    skipped: Sequence[BadRow] = ()

    def __init__(
        self,
        graph: StrPath | bytes,
        model: Any = None,
        *,
        class_names: Sequence[str] | StrPath | None = None,
        preprocess: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(model, Model):
            model = model._source
        self._model = None if model is None else _source(model, None)
        self._class_names = class_names
        self._training: Data | None = None
        self._preprocess = preprocess
        self._options = options
        source = graph if isinstance(graph, bytes) else os.fspath(graph)
        self._file = None if isinstance(source, bytes) else source
        names, named = _options.class_names(class_names)
        flags = _options.flags("cover", options) + named
        self._graph = _npcov.DecisionGraph(source, self._model, flags, names, preprocess is not None)

    @classmethod
    def _of(
        cls, graph: _npcov.DecisionGraph, model: Model, file: str | None, training: Data
    ) -> DecisionGraph:
        made = object.__new__(cls)
        made._graph, made._file = graph, file
        made._model, made._class_names = model._source, model._class_names
        made._preprocess = model._preprocess
        # For pictures.
        made._training = None if training._is_spooled else training
        kept = ("threads", "label_column", "engine")
        made._options = {name: model._options[name] for name in kept if model._options.get(name) is not None}
        return made

    @property
    def id(self) -> str:
        """What tells it from all other graphs.

        >>> graph.id == model.build(x[:200], y[:200]).id
        True
        """
        return self._graph.id

    def save(self, path: StrPath) -> None:
        """Writes it to a file, whole or not at all: the same that the command line reads and writes.

        >>> learnt = model.build(x[:100], y[:100])
        >>> learnt.save("graph.npcov")
        >>> DecisionGraph("graph.npcov").id == learnt.id
        True
        """
        self._graph.save(os.fspath(path))
        self._file = os.fspath(path)

    def inspect(self) -> GraphInspection:
        """Its classes, clusters and abstract paths.

        >>> first = graph.inspect().classes[0]
        >>> first.class_, len(first.clusters) > 0
        (0, True)
        """
        return GraphInspection(self._graph.inspect())

    def with_options(self, **options: Any) -> DecisionGraph:
        """The same graph, opened in another way: with other ``threads``, or on another ``engine``.

        >>> graph.with_options(threads=1).id == graph.id
        True
        """
        options = {**self._options, **options}
        options = {**options, "class_names": self._class_names, "preprocess": self._preprocess}
        if self._file is not None:
            other = DecisionGraph(self._file, self._model, **options)
        else:
            # It keeps the file open that it was read from.
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "graph.npcov")
                self._graph.save(path)
                other = DecisionGraph(path, self._model, **options)
            other._file = None
        other._training = self._training
        return other

    def _for(self, verb: str, options: dict[str, Any]) -> tuple[DecisionGraph, list[str]]:
        """The graph on the engine that options of a verb name, and the flags of the rest."""
        rest = {key: value for key, value in options.items() if key != "engine"}
        engine = options.get("engine")
        return (self if engine is None else self.with_options(engine=engine)), self._flags(verb, rest)

    def _flags(self, verb: str, options: dict[str, Any]) -> list[str]:
        """Options of a verb. Labels are where they were in training, unless they are elsewhere."""
        column = {key: value for key, value in self._options.items() if key == "label_column"}
        return _options.flags(verb, {**column, **options})

    def _held(self, coverage: Coverage) -> list[Data]:
        """Data that is at hand: what it was learnt from, and what was measured."""
        return [*([] if self._training is None else [self._training]), *coverage._kept]

    def _data(self, x: Any, y: Any) -> Data:
        return fitted(x, y, self._preprocess, self._graph)

    def cover(
        self,
        x: Any,
        y: Any = None,
        *,
        name: str | None = None,
        earlier: Coverage | StrPath | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Coverage:
        """Measures which decision logic data exercises. A dict of data, by name, is several suites.

        With ``output``, the coverage is written to that file, and an interrupted call can be repeated; ``earlier``
        is coverage that this is added to.

        >>> first = graph.cover(x[:50], y[:50], name="first")
        >>> graph.cover(x[50:80], y[50:80], name="second", earlier=first).suites
        {'first': 50, 'second': 30}
        """
        on, flags = self._for("cover", options)
        before = None if earlier is None else opened(earlier)
        suites, kept, total = [], [], 0
        for suite, data, labels in _suites(x, y, name):
            found = self._data(data, labels)
            total += on._graph.count(found._samples)
            suites.append((suite or os.path.basename(found.name), found._samples))
            kept += [] if found._is_spooled else [found]
        with watching(progress, total, "cover") as told:
            coverage, warnings = on._graph.cover(
                suites, flags, None if before is None else before._coverage, _path(output), told
            )
        warn(warnings)
        # Batches that come later belong to the same suite and are measured alike; which inputs of this data are is its own.
        measured = {key: value for key, value in options.items() if key not in ("engine", "limit", "shard")}
        kept += [] if before is None else before._kept
        return Coverage._of(coverage, on, suites[0][0] if len(suites) == 1 else "suite", measured, kept)

    def empty_coverage(self, name: str = "suite", **options: Any) -> Coverage:
        """Coverage of nothing yet, for an evaluation loop: ``update`` takes batches, ``compute`` measures them.

        >>> coverage = graph.empty_coverage("loop", criteria=["snpc"])
        >>> coverage.update(x[:50], y[:50])
        >>> coverage.suites
        {'loop': 50}
        """
        return Coverage._of(None, self, name, options, [])

    @overload
    def explain(
        self, x: Any, y: Any = ..., *, index: int, output: StrPath | None = ..., progress: Progress = ..., **options: Any
    ) -> Explanation: ...

    @overload
    def explain(
        self, x: Any, y: Any = ..., *, index: None = ..., output: StrPath | None = ..., progress: Progress = ..., **options: Any
    ) -> Explanations: ...

    def explain(
        self,
        x: Any,
        y: Any = None,
        *,
        index: int | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Explanation | Explanations:
        """Says which neurons decided, and where inputs are in the graph: the one at ``index``, or all.

        >>> one = graph.explain(x, index=3)
        >>> one.path.placement.cluster >= 0
        True
        """
        data = self._data(x, y)
        index = from_the_end(index, self._graph, data)
        on, flags = self._for("explain", {**options, "index": index})
        with watching(progress, on._graph.count(data._samples), "explain") as told:
            answer, found, heatmap = on._graph.explain(data._samples, flags, _path(output), told)
        warn(answer[2])
        return Explanations(answer, found) if index is None else Explanation(answer, found, heatmap)

    def gaps(
        self,
        coverage: Coverage | StrPath,
        pool: Any = None,
        *,
        show: Any = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Gaps:
        """What suites are missing and, from a pool, what to add.

        The picture shows training data and suites that are still in memory, or their files. ``show`` is other such
        data, or a list of :class:`Data`.

        >>> few = y[:200] < 9
        >>> found = graph.gaps(graph.cover(x[:200][few], y[:200][few]), pool=x[200:300], count=4)
        >>> bool(found), found.gaps[0].class_
        (True, 9)
        """
        coverage = opened(coverage)
        if "class_shares" in options:
            coverage = coverage.with_class_shares(options.pop("class_shares"))
        on, flags = self._for("gaps", options)
        found = None if pool is None else self._data(pool, None)
        shown = show if isinstance(show, list) and all(isinstance(d, Data) for d in show) else [show]
        seen = [self._data(data, None)._samples for data in shown if data is not None]
        seen += [data._samples for data in self._held(coverage)]
        total = None if found is None else on._graph.count(found._samples)
        with watching(progress, total, "gaps") as told:
            answer, sheet = on._graph.gaps(
                coverage._coverage,
                flags,
                None if found is None else found._samples,
                seen,
                _path(output),
                told,
            )
        warn(answer[2])
        return Gaps(answer, sheet)

    def export(self, folder: StrPath, **options: Any) -> Exported:
        """Writes what it knows of its training inputs as Parquet files into a folder, or where a URL of fsspec leads.

        >>> graph.export("paths", activations="f16")  # doctest: +SKIP
        """
        from ._distributed import store

        flags, place = _options.flags("export", options), os.fspath(folder)
        if not store.is_url(place):
            return Exported(self._graph.export(flags, place))
        with tempfile.TemporaryDirectory(prefix="npcov-") as made:
            said, text, warnings = self._graph.export(flags, made)
            # The list of files says where they are.
            listed = os.path.join(made, "_manifest.json")
            with open(listed, encoding="utf-8") as file:
                content = file.read()
            with open(listed, "w", encoding="utf-8") as file:
                file.write(content.replace(made, place, 1))
            # It is there when they are.
            for name in sorted(os.listdir(made), key=lambda name: name.startswith("_")):
                store.upload(f"{place.rstrip('/')}/{name}", os.path.join(made, name))
        return Exported((said.replace(made, place, 1), text.replace(made, place), warnings))

    @overload
    def select(
        self,
        pool: Any,
        y: Any = ...,
        *,
        by: str,
        shard: str,
        given: Coverage | StrPath | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
        **options: Any,
    ) -> BuiltPart: ...

    @overload
    def select(
        self,
        pool: Any,
        y: Any = ...,
        *,
        by: str,
        shard: None = ...,
        given: Coverage | StrPath | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
        **options: Any,
    ) -> Selection: ...

    def select(
        self,
        pool: Any,
        y: Any = None,
        *,
        by: str,
        shard: str | None = None,
        given: Coverage | StrPath | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Selection | BuiltPart:
        """Picks the inputs of a pool that are worth having; ``result.index`` are their positions.

        ``shard="2/4"`` only measures the second quarter of the pool and keeps that beside ``output``; ``join=True``
        picks from all parts.

        >>> found = graph.select(x[:100], by="additional:snpc", count=5)
        >>> x[found.index].shape
        (5, 28, 28)
        """
        on, flags = self._for("select", {**options, "by": by, "shard": shard})
        data = self._data(pool, y)
        with watching(progress, on._graph.count(data._samples), "select") as told:
            answer = on._graph.select(
                data._samples, flags, None if given is None else opened(given)._coverage, _path(output), told
            )
        warn(answer[2])
        return Selection(answer) if shard is None else BuiltPart(answer)

    def minimize(
        self,
        suite: Any,
        y: Any = None,
        *,
        given: Coverage | StrPath | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Minimization:
        """Finds a small part of a suite that covers all that the suite covers.

        >>> found = graph.minimize(x[:100], y[:100], criteria=["snpc"])
        >>> 0 < len(found.index) < 100
        True
        """
        on, flags = self._for("minimize", options)
        data = self._data(suite, y)
        with watching(progress, on._graph.count(data._samples), "minimize") as told:
            answer = on._graph.minimize(
                data._samples, flags, None if given is None else opened(given)._coverage, _path(output), told
            )
        warn(answer[2])
        return Minimization(answer)

    def __repr__(self) -> str:
        return f"<npcov.DecisionGraph {self._file or 'in memory'}: {self.id[:12]}>"

    def _repr_html_(self) -> str:
        inspection = self.inspect()
        pictures = None if self._training is None else self._graph.clusters(self._training._samples)
        return inspection._html_with(pictures)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            raise TypeError("a decision graph in memory cannot be pickled: `graph.save(path)` it first")
        model = self._model
        if isinstance(model, str):
            model = os.path.abspath(model)
        made = (os.path.abspath(self._file), model, self._class_names, self._preprocess)
        return _unpickled, (*made, self._options, self.id)


def _suites(x: Any, y: Any, name: str | None) -> list[tuple[str | None, Any, Any]]:
    is_dict = isinstance(x, Mapping)
    if is_dict and y is None and name is None and all(_is_suite(part) for part in x.values()):
        return [
            (str(key), *part) if isinstance(part, tuple) else (str(key), part, None)
            for key, part in x.items()
        ]
    return [(name, x, y)]


def _is_suite(part: Any) -> bool:
    """Whether a value of a dict is a suite, not an input of a model with several."""
    return isinstance(part, (Data, tuple, str, os.PathLike))


def _unpickled(
    path: str,
    model: Any,
    class_names: Sequence[str] | StrPath | None,
    preprocess: Callable[[Any], Any] | None,
    options: dict[str, Any],
    identity: str,
) -> DecisionGraph:
    """A graph that was pickled by its path, if it is still the same."""
    graph = DecisionGraph(path, model, class_names=class_names, preprocess=preprocess, **options)
    if graph.id != identity:
        raise ArtefactError(f"`{path}` is another decision graph than the one that was pickled")
    return graph
