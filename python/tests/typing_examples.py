"""What a user's program looks like to a type checker; it is checked, not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import npcov
from npcov.pytest import assert_coverage


def five_lines(x: np.ndarray, y: np.ndarray) -> bool:
    model = npcov.Model("model.onnx", divide=255)
    graph = model.build(x, y, alpha=0.8)
    coverage = graph.cover(x, y, name="test")
    for gap in coverage.gaps().gaps:
        print(gap.cluster)
    check: npcov.Check = coverage.check(fail_under={"snpc": "0.8*random"})
    return bool(check)


def results(graph: npcov.DecisionGraph, x: np.ndarray) -> list[float]:
    one: npcov.Explanation = graph.explain(x, index=3)
    heat: bytes | None = one.heatmap
    print(heat is None)
    many: npcov.Explanations = graph.explain(x)
    coverage: npcov.Coverage = graph.cover({"a": npcov.Data(x)})
    coverage.save(Path("state.npcov"))
    chosen = graph.select(x, by="additional:snpc", count=3)
    print(x[chosen.index].shape, many.relevance[0].mean())
    assert_coverage(graph, x, snpc=0.1, thin=False)
    accumulated = graph.empty_coverage("loop")
    accumulated.update(x)
    accumulated.update((x, x))
    both: npcov.Coverage = npcov.merge(coverage, "other.npcov", name="both")
    print(both.suites)
    return [float(v) for v in accumulated.compute().report().to_dict()["suites"][0]["criteria"].values()]


def mutants(model: npcov.Model, graph: npcov.DecisionGraph, x: np.ndarray) -> float:
    killed: npcov.Mutation = model.mutate(x, graph=graph, paths="inside")
    both: npcov.Mutation = npcov.merge(killed, Path("killed.json"))
    return float((both | killed).score)


def errors() -> str | None:
    try:
        npcov.Model(b"")
    except npcov.ModelError as error:
        return error.hint
    return None
