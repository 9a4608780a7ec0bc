"""The engine `onnxruntime` beside npcov's own, where ONNX Runtime is installed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, MODEL, CommandLine
from test_frameworks import needs

import npcov

MODELS = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.onnx"))


@pytest.fixture(scope="module")
def runtime() -> str:
    if not os.environ.get("ORT_DYLIB_PATH"):
        needs("onnxruntime")
    return "onnxruntime"


def data_of(path: Path) -> Any:
    """Data that lies beside a model, or random numbers of its inputs' shapes."""
    beside = path.with_suffix(".npz")
    if beside.exists():
        return beside
    numbers = np.random.default_rng(0)
    if path.name == "two-inputs.onnx":
        return {"image": numbers.random((20, 1, 28, 28), np.float32), "mask": np.ones((20, 10), np.int64)}
    return numbers.random((20, *npcov.Model(path).input_shape), np.float32)


def explained(engine: str, path: Path) -> npcov.Explanations | None:
    """Explanations; `None` where there are none for such a model."""
    try:
        return npcov.Model(path, engine=engine).explain(data_of(path), limit=20, alpha=0.8, input_relevance=True)
    except npcov.ModelError:
        return None


def test_relevances_and_paths_agree(runtime: str) -> None:
    """Both run the same program, so what differs is the order of sums: relevance within 1e-4 of the largest of its
    layer, and at least 99.9 % of the bits of every model's paths equal."""
    models = all_bits = all_different = 0
    worst = (0.0, "")
    for name in MODELS:
        own, other = (explained(engine, FIXTURES / name) for engine in ("native", runtime))
        assert (own is None) == (other is None), name
        if own is None or other is None:
            print(f"{name}: no explanation")
            continue
        models += 1
        bits = different = 0
        for key, expected in own.arrays.items():
            found = other.arrays[key]
            if key.startswith("path."):
                bits += expected.size
                different += int((found != expected).sum())
            elif key != "prediction":
                largest = max(float(np.abs(expected).max()), np.finfo(np.float32).tiny)
                apart = float(np.abs(found - expected).max()) / largest
                assert apart < 1e-4, (name, key, apart)
                worst = max(worst, (apart, name))
        assert bits > 0 and different / bits <= 0.001, (name, bits, different)
        all_bits, all_different = all_bits + bits, all_different + different
    print(f"{models} models, {all_bits} bits, {all_different} different; relevance at most {worst[0]:.2e} apart ({worst[1]})")
    assert models >= 40


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
    in_memory = npcov.Model(MODEL, divide=255, engine=runtime).build(x[:200], y[:200])
    for learnt in (graph, in_memory):
        with pytest.warns(npcov.NpcovWarning, match="engine: native .*, not onnxruntime"):
            assert learnt.cover(x[200:300], y[200:300], name="s", engine="native") == other
    assert pickle.loads(pickle.dumps(graph)).id == graph.id
    with pytest.raises(npcov.ArtefactError, match="arithmetic"):
        coverage.merge(asked.cover(x[300:400], y[300:400], name="s"))
    with pytest.warns(npcov.NpcovWarning, match="engine: onnxruntime .*, not native"):
        npcov.DecisionGraph(tmp_path / "native.npcov", engine=runtime).cover(x[200:250])

    np.savez(cli.folder / "suite.npz", x=x[200:300], y=y[200:300])
    words = ("cover", tmp_path / "ort.npcov", "--data", "suite.npz", "--name", "s", "-o", "s.npcov")
    refused = cli.run(*words)
    assert refused.returncode == 2 and "--engine onnxruntime" in refused.stderr
    library = os.environ.get("ORT_DYLIB_PATH") or needs("onnxruntime").__path__[0] + "/capi"
    done = cli.run(*words, "--engine", f"onnxruntime:cpu@{library}")
    assert done.returncode == 0, done.stderr
    assert npcov.Coverage(cli.folder / "s.npcov") == coverage


def test_the_library_of_an_installed_package_is_found(runtime: str, tmp_path: Path) -> None:
    """By the module beside which it is installed, and by the command in the environment that is active."""
    place = Path(os.environ.get("ORT_DYLIB_PATH") or needs("onnxruntime").__path__[0] + "/capi")
    library = max(place.glob("libonnxruntime.so*")) if place.is_dir() else place
    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    (capi.parent / "__init__.py").write_text("raise ImportError('it is found, and not imported')")
    (capi / library.name).symlink_to(library)
    python = tmp_path / "active" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho {capi.parent}\n")
    python.chmod(0o755)
    names = {key: value for key, value in os.environ.items() if key != "ORT_DYLIB_PATH"}
    program = f"import npcov; print(npcov.Model({MODEL!r}, engine='onnxruntime').predict({IMAGES!r}, limit=5).inputs)"
    path = os.pathsep.join([str(tmp_path), *filter(None, [names.get("PYTHONPATH")])])
    found = subprocess.run([sys.executable, "-c", program], env={**names, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.stdout.strip() == "5", found.stderr
    command = [sys.executable, "-m", "npcov", "predict", MODEL, "--data", IMAGES, "--limit", "5", "--engine", "onnxruntime"]
    active = {**names, "VIRTUAL_ENV": str(tmp_path / "active")}
    said = subprocess.run(command, env=active, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_without_the_library(cli: CommandLine) -> None:
    said = cli.run("predict", MODEL, "--data", IMAGES, "--engine", "onnxruntime@/nowhere")
    assert said.returncode == 2 and "`pip install onnxruntime` brings it" in said.stderr
    with pytest.raises(npcov.OptionError, match="pip install onnxruntime"):
        npcov.Model(MODEL, engine="onnxruntime@/nowhere")
    with pytest.raises(npcov.OptionError, match="no engine"):
        npcov.Model(MODEL, engine="tpu")
    with pytest.raises(npcov.OptionError, match="no provider"):
        npcov.Model(MODEL, engine="onnxruntime:tpu")
