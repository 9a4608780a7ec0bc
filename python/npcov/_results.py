"""Results: what the command line prints, as objects."""

from __future__ import annotations

import base64
import copy
import html
import json
import keyword
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from . import _npcov

if TYPE_CHECKING:
    from numpy.typing import NDArray

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used and was left out: its number, what its dataset calls it, and what is wrong with it."""

    row: int
    id: Any
    reason: str


class Record:
    """A part of a result: its fields are attributes, and keys.

    Fields have the names of ``--format json``; where that is a word of Python, an underscore follows.

    >>> record = Record({"class": 3, "criteria": {"nc@0": 0.5}})
    >>> record.class_, record["criteria"]["nc@0"], "class" in record
    (3, 0.5, True)
    """

    _fields: dict[str, Any]

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__["_fields"] = fields

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        key = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
        if key in fields:
            return _wrapped(fields[key])
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("results are read-only")

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._fields[key])

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> list[str]:
        own = (key + "_" if keyword.iskeyword(key) else key for key in self._fields)
        return [*super().__dir__(), *(key for key in own if key.isidentifier())]

    def keys(self) -> list[str]:
        """The names of its fields."""
        return list(self._fields)

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, texts and numbers."""
        return copy.deepcopy(self._fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fields!r})"

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(part) for part in value]
    return value


class Result(Record):
    """What a verb gives: fields, the text that the command line prints, and a table."""

    # The list of fields that is the table of the result.
    _table: str = ""

    def __init__(self, told: tuple[str, str, list[str]]) -> None:
        text, shown, _ = told
        super().__init__(json.loads(text))
        self.__dict__["_text"] = shown
        self.__dict__["_json"] = text

    def __str__(self) -> str:
        return str(self.__dict__["_text"])

    def __repr__(self) -> str:
        first = str(self).strip().splitlines()
        return f"<npcov.{type(self).__name__}: {first[0].strip() if first else ''}>"

    def to_json(self) -> str:
        """The document of ``--format json``."""
        return str(self.__dict__["_json"])

    def _rows(self) -> list[dict[str, Any]]:
        """The rows of its table."""
        rows = self._fields.get(self._table, [])
        return [_flat(row) for row in rows if isinstance(row, dict)]

    def to_pandas(self) -> Any:
        """Its table, as a frame of pandas."""
        import pandas

        return pandas.DataFrame(self._rows())

    def _repr_html_(self) -> str:
        return _pre(str(self)) + table(self._rows())


def _pre(text: str) -> str:
    # Notebooks show `pre` in the font of prose, in which columns do not stand below each other.
    return f'<pre style="font-family: monospace">{html.escape(text)}</pre>'


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Fields of fields under names with dots; lists stay what they are."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{before}{key}."))
        else:
            flat[before + key] = value
    return flat


def table(rows: list[dict[str, Any]], beside: dict[str, list[str]] | None = None) -> str:
    """Rows as a table of HTML, without what does not fit into a cell; ``beside`` are columns that are HTML already."""
    columns: list[str] = []
    for row in rows:
        columns += [key for key in row if key not in columns and not isinstance(row[key], list)]
    if not columns:
        return ""

    def cell(value: Any) -> str:
        if value is None or isinstance(value, list):
            return ""
        return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))

    more = beside or {}
    head = "".join(f"<th>{html.escape(column)}</th>" for column in [*columns, *more])
    lines = []
    for place, row in enumerate(rows):
        cells = [*(cell(row.get(c)) for c in columns), *(shown[place] for shown in more.values())]
        lines.append("".join(f"<td>{found}</td>" for found in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def picture(png: bytes | None, words: str) -> str:
    """A picture as HTML."""
    if png is None:
        return ""
    data = base64.b64encode(png).decode("ascii")
    return f'<img alt="{html.escape(words)}" src="data:image/png;base64,{data}">'


def arrays(found: list[tuple[str, _npcov.Array]]) -> dict[str, NDArray[Any]]:
    """Arrays of npcov as arrays of numpy, where they lie. They are read-only."""
    import numpy as np

    return {name: np.asarray(array) for name, array in found}


class Inspection(Result):
    """What is inside a model."""

    _table = "path_layers"


class GraphInspection(Inspection):
    """The classes, clusters and abstract paths of a decision graph."""

    _table = "classes"

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for found in self._fields["classes"]:
            for cluster in found["clusters"]:
                row = {"class": found["class"], "name": found["name"], **cluster}
                rows.append(_flat({k: v for k, v in row.items() if k != "layers"}))
        return rows

    def _html_with(self, pictures: list[bytes] | None) -> str:
        """The same beside a picture of typical inputs of each cluster."""
        if pictures is None:
            return self._repr_html_()
        rows = self._rows()
        shown = [picture(png, "typical inputs of the cluster") for png in pictures]
        return _pre(str(self)) + table(rows, {"typical inputs": shown})


class CoverageInspection(Inspection):
    """What the suites of a coverage state cover."""

    _table = "suites"

    def _rows(self) -> list[dict[str, Any]]:
        return _criteria(self._fields["suites"])


class _WithArrays(Result):
    """A result with numbers of every input."""

    def __init__(self, told: tuple[str, str, list[str]], found: list[tuple[str, _npcov.Array]]) -> None:
        super().__init__(told)
        self.__dict__["_arrays"] = arrays(found)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name, as the npz file of the command line has them; empty where they went to a file."""
        found: dict[str, NDArray[Any]] = self.__dict__["_arrays"]
        return found

    def _numbered(self, kind: str) -> list[NDArray[Any]]:
        found = self.arrays
        return [found[f"{kind}.{i}"] for i in range(len(found)) if f"{kind}.{i}" in found]


class Predictions(_WithArrays):
    """How data is classified."""

    _table = "per_class"

    @property
    def classes(self) -> NDArray[Any]:
        """The class of each input."""
        return self.arrays["prediction"]

    @property
    def logits(self) -> NDArray[Any]:
        """Inputs by logits."""
        return self.arrays["logits"]

    @property
    def activations(self) -> list[NDArray[Any]]:
        """By path layer: inputs by neurons."""
        return self._numbered("activation")


class _Relevances(_WithArrays):
    @property
    def relevance(self) -> list[NDArray[Any]]:
        """By path layer: inputs by neurons."""
        return self._numbered("relevance")

    @property
    def input_relevance(self) -> NDArray[Any] | None:
        """Inputs by the shape of one input, where it was computed."""
        return self.arrays.get("relevance.input")

    @property
    def paths(self) -> list[NDArray[Any]]:
        """By path layer: inputs by neurons, true where a neuron is critical; empty without paths."""
        return self._numbered("path")


class Explanation(_Relevances):
    """Which neurons decided an input."""

    _table = "layers"

    def __init__(
        self,
        told: tuple[str, str, list[str]],
        found: list[tuple[str, _npcov.Array]],
        heatmap: bytes | None,
    ) -> None:
        super().__init__(told, found)
        self.__dict__["_heatmap"] = heatmap

    @property
    def heatmap(self) -> bytes | None:
        """The input beside its relevance: a PNG file, where the input is an image."""
        found: bytes | None = self.__dict__["_heatmap"]
        return found

    def _repr_html_(self) -> str:
        return picture(self.heatmap, "the input, and its relevance") + super()._repr_html_()


class Explanations(_Relevances):
    """What the explanations of many inputs have in common, and their numbers."""

    _table = "layers"


class Tuning(Result):
    """Good parameters, and what masking says of others."""

    _table = "alphas"


class Exported(Result):
    """Parquet files of a graph's training inputs."""

    _table = "files"


class BuiltPart(Result):
    """A part of some work that was done, in the folder beside its output."""

    def _rows(self) -> list[dict[str, Any]]:
        return [self._fields]


class AttackResult(_WithArrays):
    """Inputs after an attack: `x`, `y`, `prediction`, `success`, `index`, `distance`."""

    def _rows(self) -> list[dict[str, Any]]:
        """How many there were, and what became of them."""
        return [_flat({key: value for key, value in self._fields.items() if not isinstance(value, list)})]


class Mutation(Result):
    """What suites notice of models with something wrong in them: ``score``, by operator and by class.

    :meth:`Model.mutate` makes one; :meth:`open` reads a file that it, or the command line, wrote.
    """

    _table = "operators"

    def __init__(self, state: _npcov.Killed) -> None:
        super().__init__(state.report())
        self.__dict__["_state"] = state

    @property
    def _killed(self) -> _npcov.Killed:
        state: _npcov.Killed = self.__dict__["_state"]
        return state

    @staticmethod
    def is_file(path: StrPath) -> bool:
        """Whether a file holds what was killed."""
        return _npcov.Killed.is_file(os.fspath(path))

    @classmethod
    def open(cls, path: StrPath) -> Mutation:
        """What a file says was killed."""
        return cls(_npcov.Killed.open(os.fspath(path)))

    def save(self, path: StrPath) -> None:
        """Writes what was killed to a file: the same that the command line reads and writes."""
        self._killed.save(os.fspath(path))

    def merge(self, *others: Mutation | StrPath) -> Mutation:
        """What any of the suites notices."""
        found = [other if isinstance(other, Mutation) else Mutation.open(other) for other in others]
        return Mutation(self._killed.merged([other._killed for other in found]))

    def __or__(self, other: Mutation) -> Mutation:
        return self.merge(other)

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "killed.json")
            self.save(path)
            with open(path, "rb") as file:
                return {"killed": file.read()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "killed.json")
            with open(path, "wb") as file:
                file.write(state["killed"])
            self.__dict__.update(Mutation.open(path).__dict__)


class Compilation(Result):
    """A program that was written as ONNX."""

    _table = "outputs"


class Report(Result):
    """What suites cover."""

    _table = "suites"
    markdown: str
    junit: str

    def __init__(self, reported: tuple[tuple[str, str, list[str]], str, str]) -> None:
        told, markdown, junit = reported
        super().__init__(told)
        self.__dict__["markdown"] = markdown
        self.__dict__["junit"] = junit

    def _rows(self) -> list[dict[str, Any]]:
        return _criteria(self._fields["suites"])


def _criteria(suites: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each suite and criterion, with its yardsticks."""
    rows = []
    for suite in suites:
        for name, value in suite["criteria"].items():
            yardstick = suite.get("yardsticks", {}).get(name) or {}
            beside = {key: yardstick.get(key) for key in ("of_random", "of_training", "spread")}
            rows.append({"suite": suite["name"], "criterion": name, "value": value, **beside})
    return rows


class Gaps(Result):
    """What suites are missing."""

    _table = "gaps"

    def __init__(self, told: tuple[str, str, list[str]], sheet: bytes | None) -> None:
        super().__init__(told)
        self.__dict__["_picture"] = sheet

    @property
    def picture(self) -> bytes | None:
        """Images that are typical of what is missing: a PNG file, where data to show was given."""
        found: bytes | None = self.__dict__["_picture"]
        return found

    def __bool__(self) -> bool:
        return bool(self._fields["gaps"])

    def _repr_html_(self) -> str:
        return picture(self.picture, "typical inputs of each gap") + super()._repr_html_()


class Check(Result):
    """Whether suites are what they must be. It is true where they are."""

    _table = "findings"
    junit: str

    def __init__(self, reported: tuple[tuple[str, str, list[str]], str, str]) -> None:
        told, _, junit = reported
        super().__init__(told)
        self.__dict__["junit"] = junit

    def __bool__(self) -> bool:
        return bool(self._fields["passed"])


class Selection(Result):
    """Inputs that are worth having, the best first."""

    _table = "chosen"

    @property
    def index(self) -> NDArray[Any]:
        """Their positions in the pool: `x[selection.index]` are the inputs."""
        import numpy as np

        return np.array([chosen["input"] for chosen in self._fields["chosen"]], dtype=np.int64)


class Minimization(Selection):
    """A small part of a suite that covers all that the suite covers."""
