"""The engine `onnxruntime` beside npcov's own, where ONNX Runtime is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, MODEL, CommandLine
from test_frameworks import needs

import npcov

MODELS = sorted(path.name for path in FIXTURES.glob("*.onnx"))


@pytest.fixture(scope="module")
def runtime() -> str:
    needs("onnxruntime")
    return "onnxruntime"


def explained(engine: str, name: str, x: np.ndarray) -> npcov.Explanations:
    # Operators of attention have no rule by default.
    rules = {"MatMul": "gradient:0.1", "Softmax": "gradient:0.1"} if name.startswith("vit") else None
    return npcov.Model(FIXTURES / name, engine=engine).explain(x, alpha=0.8, input_relevance=True, rule=rules)


def test_relevances_and_paths_agree(runtime: str) -> None:
    """Both run the same program, so what differs is the order of sums: relevance within 1e-4 of the largest of its
    layer, and at least 99.9 % of the bits of paths equal."""
    bits = different = 0
    worst = 0.0
    for name in MODELS:
        shape = npcov.Model(FIXTURES / name).input_shape
        x = np.random.default_rng(0).random((20, *shape), np.float32)
        own, other = explained("native", name, x), explained(runtime, name, x)
        for key, expected in own.arrays.items():
            found = other.arrays[key]
            if key.startswith("path."):
                bits += expected.size
                different += int((found != expected).sum())
            elif key != "prediction":
                apart = float(np.abs(found - expected).max() / max(1.0, float(np.abs(expected).max())))
                worst = max(worst, apart)
                assert apart < 1e-4, (name, key, apart)
    print(f"{len(MODELS)} models, {bits} bits, {different} different; relevance at most {worst:.2e} apart")
    assert bits > 10_000 and different / bits <= 0.001


def test_every_verb_runs(runtime: str, tmp_path: Path, cli: CommandLine, images: Any) -> None:
    x, y = images
    model = npcov.Model(MODEL, divide=255, engine=runtime)
    own = npcov.Model(MODEL, divide=255)
    expected = own.predict(x[:50], y[:50])
    assert np.abs(model.predict(x[:50], y[:50]).logits - expected.logits).max() < 1e-4
    assert model.predict(x[:50], threads=1).logits.tobytes() == model.predict(x[:50], threads=3).logits.tobytes()
    assert model.tune(x[:60], y[:60], clusters=[1], alphas=[0.8], betas=[0.8]).chosen.alpha == 0.8
    assert model.attack(x[:10], y[:10], method="fgsm").correct_after <= 10

    graph = model.build(x[:200], y[:200], output=tmp_path / "ort.npcov")
    record = graph.inspect().extraction
    assert record.engine == "onnxruntime" and record.arithmetic.startswith("onnxruntime 1.")
    native = own.build(x[:200], y[:200], output=tmp_path / "native.npcov")
    assert "engine" not in native.inspect().extraction
    with pytest.raises(npcov.ArtefactError, match="engine `onnxruntime`") as error:
        npcov.DecisionGraph(tmp_path / "ort.npcov")
    assert "--engine" in str(error.value.hint)
    same = npcov.DecisionGraph(tmp_path / "ort.npcov", engine=runtime)
    coverage = graph.cover(x[200:300], y[200:300], name="s")
    assert same.cover(x[200:300], y[200:300], name="s") == coverage

    asked = npcov.DecisionGraph(tmp_path / "ort.npcov", engine="native")
    with pytest.warns(npcov.NpcovWarning, match="engine: native .*, not onnxruntime"):
        other = asked.cover(x[200:300], y[200:300], name="s")
    assert other.report().suites[0].accuracy == coverage.report().suites[0].accuracy
    with pytest.raises(npcov.ArtefactError, match="arithmetic"):
        coverage.merge(asked.cover(x[300:400], y[300:400], name="s"))
    with pytest.warns(npcov.NpcovWarning, match="engine: onnxruntime .*, not native"):
        npcov.DecisionGraph(tmp_path / "native.npcov", engine=runtime).cover(x[200:250])

    np.savez(cli.folder / "suite.npz", x=x[200:300], y=y[200:300])
    words = ("cover", tmp_path / "ort.npcov", "--data", "suite.npz", "--name", "s", "-o", "s.npcov")
    refused = cli.run(*words)
    assert refused.returncode == 2 and "--engine onnxruntime" in refused.stderr
    library = needs("onnxruntime").__path__[0] + "/capi"
    done = cli.run(*words, "--engine", f"onnxruntime:cpu@{library}")
    assert done.returncode == 0, done.stderr
    assert npcov.Coverage(cli.folder / "s.npcov") == coverage


def test_without_the_library(cli: CommandLine) -> None:
    said = cli.run("predict", MODEL, "--data", IMAGES, "--engine", "onnxruntime@/nowhere")
    assert said.returncode == 2 and "`pip install onnxruntime` brings it" in said.stderr
    with pytest.raises(npcov.OptionError, match="pip install onnxruntime"):
        npcov.Model(MODEL, engine="onnxruntime@/nowhere")
    with pytest.raises(npcov.OptionError, match="no engine"):
        npcov.Model(MODEL, engine="tpu")
    with pytest.raises(npcov.OptionError, match="no provider"):
        npcov.Model(MODEL, engine="onnxruntime:tpu")
