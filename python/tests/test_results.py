"""What all results have: a table, a frame, a text, and what is shown in notebooks."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, IMAGES

import npcov


class Asked:
    """What results are made with."""

    def __init__(self, model: npcov.Model, graph: npcov.DecisionGraph, images: Any, folder: Path) -> None:
        self.model, self.graph, self.folder = model, graph, folder
        x, y = images
        self.x, self.y = x[:60], y[:60]
        few = y[:300] < 5
        self.coverage = graph.cover(x[:300][few], y[:300][few])

    def inspected(self) -> npcov.Inspection:
        self.coverage.save(self.folder / "state.npcov")
        return npcov.inspect(self.folder / "state.npcov")


RESULTS: dict[type[npcov.Result], Callable[[Asked], npcov.Result]] = {
    npcov.Inspection: lambda a: a.model.inspect(),
    npcov.GraphInspection: lambda a: a.graph.inspect(),
    npcov.CoverageInspection: lambda a: a.inspected(),
    npcov.Predictions: lambda a: a.model.predict(a.x, a.y),
    npcov.Explanation: lambda a: a.model.explain(a.x, index=3),
    npcov.Explanations: lambda a: a.model.explain(a.x),
    npcov.Tuning: lambda a: a.model.tune(a.x, a.y, alphas=[0.8], clusters=[1], betas=[0.8]),
    npcov.BuiltPart: lambda a: a.model.build(a.x, a.y, shard="1/2", output=a.folder / "part.npcov"),
    npcov.AttackResult: lambda a: a.model.attack(a.x, a.y, method="fgsm"),
    npcov.Mutation: lambda a: a.model.mutate(a.x, a.y, operators=["nai"], mutants=2),
    npcov.Compilation: lambda a: a.model.compile(a.folder / "out.onnx"),
    npcov.Exported: lambda a: a.graph.export(a.folder / "paths"),
    npcov.Report: lambda a: a.coverage.report(),
    npcov.Gaps: lambda a: a.coverage.gaps(),
    npcov.Check: lambda a: a.coverage.check(fail_under={"accuracy": 1.0}),
    npcov.Selection: lambda a: a.graph.select(a.x, by="random", count=5),
    npcov.Minimization: lambda a: a.graph.minimize(a.x, a.y, criteria=["snpc"]),
}


@pytest.fixture
def asked(model: npcov.Model, graph: npcov.DecisionGraph, images: Any, tmp_path: Path) -> Asked:
    return Asked(model, graph, images, tmp_path)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_result_has_a_table(kind: type[npcov.Result], asked: Asked) -> None:
    found = RESULTS[kind](asked)
    assert type(found) is kind
    rows = found._rows()
    assert rows and all(rows)
    assert "<table>" in found._repr_html_() and str(found).strip() in found.__dict__["_text"]
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    if importlib.util.find_spec("pandas") is not None:
        frame = found.to_pandas()
        assert len(frame) == len(rows) and len(frame.columns) > 0


def test_no_result_is_forgotten() -> None:
    public = {kind for kind in vars(npcov).values() if inspect.isclass(kind) and issubclass(kind, npcov.Result)}
    assert public - {npcov.Result} <= set(RESULTS)


def test_a_graph_shows_what_its_clusters_are(
    model: npcov.Model, graph: npcov.DecisionGraph, images: Any, tmp_path: Path
) -> None:
    x, y = images
    learnt = model.build(x[:200], y[:200], output=tmp_path / "graph.npcov")
    clusters = len(learnt.inspect()._rows())
    assert learnt._repr_html_().count("data:image/png;base64,") == clusters > 0
    # Training data that is not at hand cannot be shown, and rows of tables are no pictures.
    opened = npcov.DecisionGraph(tmp_path / "graph.npcov")
    assert "<table>" in opened._repr_html_() and "data:image" not in opened._repr_html_()
    tables = npcov.Model(FIXTURES / "prices.onnx", label_column="price", bins=4).build(FIXTURES / "prices.csv")
    assert "<table>" in tables._repr_html_() and "data:image" not in tables._repr_html_()
    # A part of a file: rows count from its beginning.
    assert graph._repr_html_().count("data:image/png;base64,") == len(graph.inspect()._rows())
    assert len(npcov.Data(IMAGES)) > 300
