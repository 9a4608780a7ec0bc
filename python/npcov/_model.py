"""Models, and what can be asked of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from . import _npcov, _options
from ._data import Data, fitted, from_the_end
from ._progress import Progress, warn, watching
from ._results import (
    AttackResult,
    BuiltPart,
    Compilation,
    CoverageInspection,
    Explanation,
    Explanations,
    GraphInspection,
    Inspection,
    Mutation,
    Predictions,
    StrPath,
    Tuning,
)
from .errors import ModelError

if TYPE_CHECKING:
    from ._graph import DecisionGraph

class Model:
    """A model that is ready to be asked.

    ``model`` is an ONNX file, the bytes of one, an ``onnx.ModelProto``, a ``keras.Model``, or a ``torch.nn.Module``;
    the last needs ``example``, a batch of inputs, and is exported with the names of its modules. For a module with
    several inputs it is a tuple, or a dict of them by name.

    ``preprocess`` is called with batches on their way into the model; artefacts record that their caller did it. All
    other options are those of the command line: ``divide``, ``mean``, ``std``, ``resize``, ``layout``,
    ``input_shape``, ``output_name``, ``layers``, ``units``, ``batch_norm``, ``engine``, ``threads``.

    >>> model = Model(fixture("mlp-matlab.onnx"), divide=255)
    >>> model.classes, model.input_shape
    (10, (784,))
    """

    def __init__(
        self,
        model: Any,
        *,
        example: Any = None,
        class_names: Sequence[str] | StrPath | None = None,
        preprocess: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self._source = _source(model, example)
        self._class_names = class_names
        self._preprocess = preprocess
        self._options = options
        self._open()

    def _open(self) -> None:
        names, named = _options.class_names(self._class_names)
        flags = _options.flags("model", self._options) + named
        by = None if self._preprocess is None else _name(self._preprocess)
        self._model = _npcov.Model(self._source, flags, names, by)

    @property
    def classes(self) -> int:
        """How many classes it tells apart.

        >>> model.classes
        10
        """
        return self._model.classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input.

        >>> model.input_shape
        (784,)
        """
        return tuple(self._model.input_shape)

    @property
    def layers(self) -> list[tuple[str, int]]:
        """The path layers, from input to output: names, and numbers of neurons.

        >>> [neurons for _, neurons in model.layers]
        [24]
        """
        return self._model.layers

    @property
    def sha256(self) -> str:
        """What tells it from all other models.

        >>> model.sha256 == Model(fixture("mlp-matlab.onnx")).sha256
        True
        """
        return self._model.sha256

    @property
    def file(self) -> Path | None:
        """Its file; ``None`` for a model in memory.

        >>> Model(fixture("lenet.onnx")).file.name
        'lenet.onnx'
        """
        return None if self._model.file is None else Path(self._model.file)

    def with_options(self, **options: Any) -> Model:
        """The same model, opened in another way.

        >>> model.with_options(units=True, threads=1).classes
        10
        """
        other = object.__new__(Model)
        other.__dict__.update(self.__dict__, _options={**self._options, **options})
        other._open()
        return other

    def _for(self, verb: str, options: dict[str, Any]) -> tuple[Model, list[str]]:
        """The model as options of a verb want it opened, and the flags of the rest."""
        own = _options.table(verb)
        opening = {
            key: value
            for key, value in options.items()
            if _options.is_of_model(key) and key != "threads"
        }
        for key in opening:
            if key.replace("_", "-") not in own:
                raise TypeError(f"`{verb}` has no option `{key}`")
        rest = {key: value for key, value in options.items() if key not in opening}
        return (self.with_options(**opening) if opening else self), _options.flags(verb, rest)

    def _data(self, x: Any, y: Any) -> Data:
        return fitted(x, y, self._preprocess, self._model)

    def inspect(self) -> Inspection:
        """What is inside: inputs, outputs, operators, parameters, path layers.

        >>> print(Model(fixture("mlp-matlab.onnx")).inspect().parameters)
        19874
        """
        return inspect(self._source, **self._inspected())

    def _inspected(self) -> dict[str, Any]:
        known = _options.table("inspect")
        return {k: v for k, v in self._options.items() if k.replace("_", "-") in known}

    def predict(
        self,
        x: Any,
        y: Any = None,
        *,
        activations: bool = False,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Predictions:
        """Classifies data. ``activations`` keeps one number for each neuron as well.

        >>> found = Model(fixture("mlp-matlab.onnx"), divide=255).predict(fixture("fashion-1000.npz"), limit=50)
        >>> found.accuracy, found.logits.shape
        (0.82, (50, 10))
        """
        model, flags = self._for("predict", options)
        data = self._data(x, y)
        with watching(progress, model._model.count(data._samples), "predict") as told:
            answer, found = model._model.predict(
                data._samples, flags, _path(output), activations, told
            )
        warn(answer[2])
        return Predictions(answer, found)

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
        """Says which neurons decided: of the input at ``index``, or of all.

        >>> model = Model(fixture("mlp-matlab.onnx"), divide=255)
        >>> one = model.explain(fixture("fashion-1000.npz"), index=3)
        >>> one.prediction.class_, one.relevance[0].shape
        (1, (1, 24))
        """
        data = self._data(x, y)
        index = from_the_end(index, self._model, data)
        model, flags = self._for("explain", {**options, "index": index})
        with watching(progress, model._model.count(data._samples), "explain") as told:
            answer, found, heatmap = model._model.explain(data._samples, flags, _path(output), told)
        warn(answer[2])
        return Explanations(answer, found) if index is None else Explanation(answer, found, heatmap)

    def tune(self, x: Any, y: Any = None, *, progress: Progress = None, **options: Any) -> Tuning:
        """Finds good parameters for :meth:`build` by masking; ``result.chosen`` has them.

        >>> model.tune(x[:60], y[:60], alphas=[0.8, 0.9], clusters=[1], betas=[0.8]).chosen.beta
        0.8
        """
        model, flags = self._for("tune", options)
        data = self._data(x, y)
        with watching(progress, None, "tune") as told:
            answer = model._model.tune(data._samples, flags, told)
        warn(answer[2])
        return Tuning(answer)

    @overload
    def build(
        self,
        x: Any,
        y: Any = ...,
        *,
        calibration: Any = ...,
        shard: str,
        output: StrPath | None = ...,
        progress: Progress = ...,
        **options: Any,
    ) -> BuiltPart: ...

    @overload
    def build(
        self,
        x: Any,
        y: Any = ...,
        *,
        calibration: Any = ...,
        shard_classes: str,
        output: StrPath | None = ...,
        progress: Progress = ...,
        **options: Any,
    ) -> BuiltPart: ...

    @overload
    def build(
        self,
        x: Any,
        y: Any = ...,
        *,
        calibration: Any = ...,
        shard: None = ...,
        shard_classes: None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
        **options: Any,
    ) -> DecisionGraph: ...

    def build(
        self,
        x: Any,
        y: Any = None,
        *,
        calibration: Any = None,
        shard: str | None = None,
        shard_classes: str | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> DecisionGraph | BuiltPart:
        """Learns a decision graph from training data.

        ``calibration`` is data that the model was not trained with: scores of inputs are ranked among theirs.

        With ``output``, it is written to that file; finished parts are kept beside it, and the same call goes on
        where one that was interrupted stopped.

        ``shard="2/4"`` does only the second quarter of the work and keeps it beside ``output``, so that several
        processes and machines can share it; ``join=True`` makes the graph of all parts. Both are given the same data
        and options. In between, ``shard_classes="2/4"`` clusters the second quarter of the classes, or parts of classes
        where there are more parts than these.

        >>> learnt = model.build(x[:100], y[:100], criteria=["snpc", "nc"], output="graph.npcov")
        >>> len(learnt.inspect().classes)
        10
        """
        from ._graph import DecisionGraph

        model, flags = self._for("build", {**options, "shard": shard, "shard_classes": shard_classes})
        is_part = shard is not None or shard_classes is not None
        if is_part and output is None:
            raise TypeError("`shard` needs `output`: parts are kept beside that file")
        data = self._data(x, y)
        apart = None if calibration is None else self._data(calibration, None)._samples
        total = None if is_part else model._model.count(data._samples)
        with watching(progress, total, "build") as told:
            if is_part and output is not None:
                answer = model._model.build_part(data._samples, flags, apart, os.fspath(output), told)
                warn(answer[2])
                return BuiltPart(answer)
            graph, warnings = model._model.build(data._samples, flags, apart, _path(output), told)
        warn(warnings)
        return DecisionGraph._of(graph, model, None if output is None else os.fspath(output), data)

    def attack(
        self,
        x: Any,
        y: Any = None,
        *,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> AttackResult:
        """Changes inputs a little, so that they are misclassified. Without ``output``, ``result.arrays`` has them.

        >>> found = model.attack(x[:20], y[:20], method="fgsm", epsilon=0.1)
        >>> found.correct_after < found.correct_before, found.arrays["x"].shape
        (True, (20, 28, 28))
        """
        model, flags = self._for("attack", options)
        data = self._data(x, y)
        with watching(progress, None, "attack") as told:
            answer, found = model._model.attack(data._samples, flags, _path(output), told)
        warn(answer[2])
        return AttackResult(answer, found if output is None else [])

    def mutate(
        self,
        x: Any,
        y: Any = None,
        *,
        judge: Any = None,
        graph: DecisionGraph | StrPath | None = None,
        output: StrPath | None = None,
        progress: Progress = None,
        **options: Any,
    ) -> Mutation:
        """Makes models with something wrong in them, and counts which of them a suite notices.

        ``judge`` is data whose accuracy says which of them count; by default the suite itself. With ``graph``, a decision
        graph of the model, ``paths="inside"`` or ``"outside"`` says which neurons are changed. ``output`` is a file that
        keeps what was killed; ``|`` and :func:`npcov.merge` unite what several suites kill.

        >>> found = model.mutate(x[:60], y[:60], operators=["nai"], mutants=3)
        >>> found.mutants, 0 <= found.score <= 1
        (3, True)
        """
        from ._graph import DecisionGraph

        model, flags = self._for("mutate", options)
        data = self._data(x, y)
        judging = None if judge is None else self._data(judge, None)._samples
        among = graph if graph is None or isinstance(graph, DecisionGraph) else DecisionGraph(graph, self)
        with watching(progress, None, "mutate") as told:
            state, warnings = model._model.mutate(
                data._samples, flags, judging, None if among is None else among._graph, _path(output), told
            )
        warn(warnings)
        return Mutation(state)

    def compile(self, output: StrPath, **options: Any) -> Compilation:
        """Writes what npcov computes as an ONNX file for any runtime.

        >>> written = model.compile("explain.onnx", program="explain", batch=4)
        >>> written.outputs[0].name
        'logits'
        """
        known = _options.table("compile")
        own = {k: v for k, v in self._options.items() if k.replace("_", "-") in known}
        flags = _options.flags("compile", {**own, **options})
        answer = _npcov.compile(self._source, flags, os.fspath(output))
        warn(answer[2])
        return Compilation(answer)

    def __repr__(self) -> str:
        where = self.file or "in memory"
        return f"<npcov.Model {where}: {self.classes} classes, {len(self.layers)} path layers>"

    def __reduce__(self) -> tuple[Any, ...]:
        source = self._source if self.file is None else os.path.abspath(self.file)
        made = (source, self._class_names, self._preprocess, self._options, self.sha256)
        return _unpickled, made


def _unpickled(
    source: Any,
    class_names: Sequence[str] | StrPath | None,
    preprocess: Callable[[Any], Any] | None,
    options: dict[str, Any],
    sha256: str,
) -> Model:
    """A model that was pickled by its path, if it is still the same."""
    model = Model(source, class_names=class_names, preprocess=preprocess, **options)
    if model.sha256 != sha256:
        raise ModelError(
            f"`{source}` is another model than the one that was pickled",
            "pickle a model again after its file has changed",
        )
    return model


def inspect(model: Any, **options: Any) -> Inspection:
    """What is inside a model, also one that npcov cannot run: ``result.problem`` says why.

    Of the file of a decision graph, which does not need its model for that, it gives its classes and clusters; of
    coverage, what its suites cover.

    >>> inspect(fixture("lenet.onnx")).classes
    10
    """
    told = _npcov.inspect(_source(model, None), _options.flags("inspect", options))
    found = Inspection(told)
    if "suites" in found:
        return CoverageInspection(told)
    return GraphInspection(told) if isinstance(found.to_dict().get("classes"), list) else found


def _path(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)


def _name(function: Callable[..., Any]) -> str:
    """What a callable is called."""
    named = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{named}" if module and module != "__main__" else str(named)


def _source(model: Any, example: Any) -> str | bytes:
    """A model's file, or the bytes of one."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(cast("os.PathLike[str] | str", model))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        return bytes(model.SerializeToString())
    if hasattr(model, "model_proto") and hasattr(model.model_proto, "SerializeToString"):
        return bytes(model.model_proto.SerializeToString())
    from . import _export

    if _export.is_torch(model):
        return _export.from_torch(model, example)
    if _export.is_keras(model):
        return _export.from_keras(model, example)
    raise TypeError(
        f"`{type(model).__name__}` is no model: a file, bytes, an onnx.ModelProto, a torch.nn.Module or a "
        "keras.Model is"
    )
