"""The examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES

import npcov

MODULES = ["npcov", *(f"npcov.{found.name}" for found in pkgutil.iter_modules(npcov.__path__))]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: npcov.Model, images: Any) -> dict[str, Any]:
    """What examples have: files of the fixtures, a model, images with their labels, and a graph of some of them."""
    monkeypatch.chdir(tmp_path)
    x, y = images
    graph = model.build(x[:200], y[:200])
    return {"fixture": lambda file: str(FIXTURES / file), "model": model, "graph": graph, "x": x, "y": y}


@pytest.mark.parametrize("name", [name for name in MODULES if name != "npcov.__main__"])
def test_examples(name: str, names: dict[str, Any]) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("of", [npcov.Model, npcov.DecisionGraph, npcov.Coverage])
def test_every_verb_has_an_example(of: type) -> None:
    public = [name for name in vars(of) if not name.startswith("_") and inspect.getdoc(getattr(of, name))]
    own = [name for name in public if callable(getattr(of, name)) or isinstance(vars(of)[name], property)]
    without = [name for name in own if ">>>" not in str(inspect.getdoc(getattr(of, name)))]
    assert len(own) > 5 and not without
