"""Options: keyword arguments in the words of the command line.

``alpha=0.8`` is ``--alpha 0.8``, ``anpc_upper="auto"`` is ``--anpc-upper auto``. The command line's own parser
reads them, so values mean the same and errors say the same.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _npcov
from .errors import OptionError

# What a verb of Python is given in another way, by the name of the option.
_OTHERWISE = {
    "data": "data is the first argument",
    "model": "the model is an object",
    "output": "`output` is an argument of its own",
    "write": "write `result.chosen` where you want it",
    "config": "settings files are for the command line",
    "format": "results have `to_dict()`, `str()` and `_repr_html_()`",
    "heatmap": "the result has `heatmap`, a PNG file in bytes",
    "no-heatmap": "the result has `heatmap`, a PNG file in bytes",
    "picture": "the result has `picture`, a PNG file in bytes",
    "append": "give `earlier=coverage`",
    "inputs": "coverage has `inputs()`",
    "against": "`against` is an argument of its own",
    "calibration": "`calibration` is an argument of `build`",
    "class-names": "`Model` and `DecisionGraph` take the names of classes",
    "class-shares": "`coverage.with_class_shares(...)` says how frequent classes should be",
}

# The same, where a name means different things to different verbs.
_OTHERWISE_OF = {
    ("cover", "all"): "`coverage.report(all=True)` shows everything",
    ("export", "output"): "the folder is the first argument",
    ("report", "data"): "`data` is an argument of its own",
    ("report", "graph"): "the graph is an object: `Coverage(path, graph)`",
    ("report", "pool"): "`pool` is an argument of its own",
    ("tune", "shard"): "parts lie beside the settings file that `npcov tune --write` names: the command does them",
    ("tune", "join"): "parts lie beside the settings file that `npcov tune --write` names: the command joins them",
}

_BY_X = {"input-shape", "resize", "crop"}

# Options that have a meaning without a value, too.
_WITHOUT_VALUE = {"fail-on-thin"}


def class_names(given: Any) -> tuple[list[str] | None, list[str]]:
    """Names of classes: themselves, or the flag that names their file."""
    if isinstance(given, (str, os.PathLike)):
        return None, [f"--class-names={os.fspath(given)}"]
    return (None if given is None else [str(name) for name in given]), []


@functools.lru_cache(maxsize=None)
def table(verb: str) -> dict[str, tuple[bool, bool, str]]:
    """The options of a verb: whether each has a value, whether it repeats, what it means."""
    found = _npcov.options(verb)
    assert found is not None, verb
    return {name: (value, repeats, text) for name, value, repeats, text in found}


def is_of_model(name: str) -> bool:
    """Whether an option says how a model is opened."""
    return name.replace("_", "-") in table("model")


def flags(verb: str, options: Mapping[str, Any]) -> list[str]:
    """Options as the command line has them. Those that are ``None`` are left out.

    >>> flags("build", {"alpha": 0.8, "criteria": ["snpc", "nc"], "rule": {"first": "flat"}, "seed": None})
    ['--alpha=0.8', '--criteria=snpc,nc', '--rule=first=flat']
    """
    known = table(verb)
    words: list[str] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        otherwise = _OTHERWISE_OF.get((verb, name)) or _OTHERWISE.get(name)
        if otherwise is not None:
            raise TypeError(f"`{key}` is no option here: {otherwise}")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean `{close[0].replace('-', '_')}`?" if close else ""
            raise TypeError(f"`{verb}` has no option `{key}`{hint}")
        if value is None:
            continue
        if name == "engine":
            value = _with_library(str(value))
        takes_value, repeats, _ = known[name]
        words += _flag(name, value, takes_value, repeats)
    return words


def _with_library(engine: str) -> str:
    """An engine with the library of the ONNX Runtime that is installed beside this package, if no other is named."""
    if not engine.startswith("onnxruntime") or "@" in engine or os.environ.get("ORT_DYLIB_PATH"):
        return engine
    found = importlib.util.find_spec("onnxruntime")
    if found is None or not found.submodule_search_locations:
        return engine
    return f"{engine}@{os.path.join(found.submodule_search_locations[0], 'capi')}"


def _flag(name: str, value: Any, takes_value: bool, repeats: bool) -> list[str]:
    if not takes_value or (name in _WITHOUT_VALUE and isinstance(value, bool)):
        if not isinstance(value, bool):
            raise OptionError(f"`{name.replace('-', '_')}` is True or False, not {value!r}")
        return [f"--{name}"] if value else []
    if isinstance(value, Mapping):
        parts = [f"{word(place)}={word(setting)}" for place, setting in value.items()]
    elif _is_list(value):
        parts = [word(part) for part in value]
    else:
        return [f"--{name}={word(value)}"]
    if repeats:
        return [f"--{name}={part}" for part in parts]
    return [f"--{name}={('x' if name in _BY_X else ',').join(parts)}"]


def _is_list(value: Any) -> bool:
    if isinstance(value, (str, bytes, os.PathLike)):
        return False
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def words(value: Any) -> str:
    """A value, or several, as they are written on the command line."""
    return ",".join(word(part) for part in value) if _is_list(value) else word(value)


def word(value: Any) -> str:
    """A value as it is written on the command line."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return str(value)
