"""The examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
from conftest import FIXTURES

import npcov

MODULES = ["npcov", *(f"npcov.{found.name}" for found in pkgutil.iter_modules(npcov.__path__))]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "npcov.__main__"])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    names = {"fixture": lambda file: str(FIXTURES / file)}
    failed, _ = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    tried = [test for name in ("npcov", "npcov._model", "npcov._graph") for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(tried) >= 5
