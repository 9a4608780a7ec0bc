"""Reports as pages: the same files that the command line writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, CommandLine

import npcov

REPORT = FIXTURES / "report"


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_pages_are_those_of_the_command_line(cli: CommandLine, model: npcov.Model) -> None:
    graph = model.build(IMAGES, limit=300, clusters=2, criteria=["snpc"], output=cli.folder / "graph.npcov")
    coverage = graph.cover(IMAGES, name="test", limit=60, output=cli.folder / "state.npcov")
    words = ("report", "state.npcov", "--html", "cli", "--data", IMAGES, "--format", "markdown")
    markdown = cli.run(*words, "--single-file", "cli.html").stdout
    report = coverage.report(html=cli.folder / "python", single_file=cli.folder / "python.html", show=IMAGES)
    assert files(cli.folder / "python") == files(cli.folder / "cli")
    assert (cli.folder / "python.html").read_bytes() == (cli.folder / "cli.html").read_bytes()
    assert "cli/index.html" in markdown and "python/index.html" in report.markdown


def test_pages_of_arrays_with_names(tmp_path: Path) -> None:
    with np.load(REPORT / "iris.npz") as held:
        x, y, names = held["x"], held["y"], list(held["class_names"])
    features = (REPORT / "iris-features.txt").read_text().splitlines()
    graph = npcov.Model(REPORT / "iris.onnx", class_names=names).build(x, y, criteria=["snpc"])
    coverage = graph.cover(x[::2], y[::2], name="half")
    earlier = graph.cover(x, y, name="half")
    shown = [npcov.Data(x, y), npcov.Data(x[::2], y[::2])]
    coverage.report(html=tmp_path / "report", show=shown, feature_names=features, against=earlier, pool=x)
    found = json.loads((tmp_path / "report" / "report.json").read_text())
    assert found["suites"][0]["name"] == "half" and found["notes"] == [], found["notes"]
    assert found["difference"]["suites"][0]["inputs"]["old"] == len(x)
    assert "sepal length (cm)" in (tmp_path / "report" / "input-0-0.html").read_text()
    # Without the data inputs are named, and that is said.
    with pytest.warns(npcov.NpcovWarning, match="is not there"):
        coverage.report(html=tmp_path / "report")


def test_what_is_for_pages_alone(model: npcov.Model) -> None:
    coverage: Any = model.build(IMAGES, limit=100, criteria=["snpc"]).cover(IMAGES, limit=20)
    with pytest.raises(TypeError, match="`html` or `single_file`"):
        coverage.report(show=IMAGES)
    with pytest.raises(TypeError, match="coverage knows its graph"):
        coverage.report(graph="graph.npcov")
