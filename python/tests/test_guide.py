"""What the README and the guide show runs: blocks of code, and the tables of data and verbs, span by span."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, MODEL, png

import npcov

ROOT = FIXTURES.parent
GUIDE = (ROOT / "docs" / "guide-python.md").read_text()


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def spans(section: str) -> list[str]:
    """The code in the second column of the table of a section."""
    found = GUIDE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line.replace(r"\|", "\0").split("|") for line in found.splitlines() if line.startswith("| ")]
    return [span.replace("\0", "|") for row in rows[1:] for span in re.findall(r"`([^`]+\))`", row[2])]


def has(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in modules)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Any) -> dict[str, Any]:
    """What whoever reads the guide has: a model, arrays, files."""
    monkeypatch.chdir(tmp_path)
    x, y = images
    (tmp_path / "model.onnx").write_bytes(Path(MODEL).read_bytes())
    np.savez("test.npz", x_test=x[300:400], y_test=y[300:400])
    np.savez("field.npz", x=x[400:450], y=y[400:450])
    np.save("a.npy", x[:20])
    np.save("b.npy", x[20:40])
    for image, label in zip(x[:20], y[:20]):
        folder = tmp_path / "photos" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{len(os.listdir(folder))}.png").write_bytes(png(image))
    model = npcov.Model(MODEL, divide=255)
    graph = model.build(x[:300], y[:300], criteria=["snpc", "nc"])
    few = (y < 5) & (np.arange(1000) < 500)
    coverage = graph.cover(x[few], y[few], name="few")
    return {
        "npcov": npcov,
        "train_x": x[:300],
        "train_y": y[:300],
        "test_x": x[300:500],
        "test_y": y[300:500],
        "x": x[300:400],
        "y": y[300:400],
        "model": model,
        "graph": graph,
        "coverage": coverage,
        "pool": x[500:600],
        "suite": x[300:400],
        "loader": [(x[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50)],
        "dataset": [(image, int(label)) for image, label in zip(x[:40], y[:40])],
        "a": graph.cover(x[:50], y[:50], name="a"),
        "b": graph.cover(x[50:90], y[50:90], name="b"),
    }


def test_the_readme(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = blocks((ROOT / "README.md").read_text())
    assert len(first.splitlines()) == 5
    few = names["test_y"] < 5
    suite = {"test_x": names["test_x"][few], "test_y": names["test_y"][few]}
    exec(first, {"train_x": names["train_x"], "train_y": names["train_y"], **suite})
    assert "class 9" in capsys.readouterr().out


@pytest.mark.parametrize("block", blocks(GUIDE), ids=lambda block: block.splitlines()[-1].strip()[:40])
def test_blocks(block: str, names: dict[str, Any], request: pytest.FixtureRequest) -> None:
    if "module" in block:
        if not has("torch", "onnx"):
            pytest.skip("needs torch")
        import torch

        names["images"] = torch.rand(4, 1, 8, 8)
        names["module"] = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    if "onnxruntime" in block and not (has("onnxruntime") or os.environ.get("ORT_DYLIB_PATH")):
        pytest.skip("needs onnxruntime")
    exec(block, names)
    for name in [name for name in names if name.startswith("test_the_")]:
        names[name](request.getfixturevalue("npcov_graph"))


@pytest.mark.parametrize("span", spans("Data") + spans("Verbs"))
def test_spans(span: str, names: dict[str, Any]) -> None:
    if "frame" in span:
        if not has("pandas"):
            pytest.skip("needs pandas")
        import pandas

        flat = names["x"].reshape(100, -1)
        names["columns"] = [f"p{i}" for i in range(784)]
        names["frame"] = pandas.DataFrame(flat, columns=names["columns"]).assign(label=names["y"])
    if "masks" in span:
        two = npcov.Model(FIXTURES / "two-inputs.onnx", divide=255)
        names["images"], names["masks"] = names["x"], np.tile(np.arange(10) % 2, (100, 1))
        names["graph"] = two.build({"image": names["images"], "mask": names["masks"]}, names["y"])
    if "join" in span:
        for part in ("1/2", "2/2"):
            names["model"].build(names["x"], names["y"], shard=part, output="g.npcov")
    if "npcov.ray" in span:
        pytest.skip("clusters have tests of their own: `make test-scale`")
    if span == "npcov.inspect(model)":
        names["model"] = "model.onnx"
    assert eval(span, names) is not None


def test_there_is_something_to_run() -> None:
    assert len(blocks(GUIDE)) >= 5 and len(spans("Data")) >= 8 and len(spans("Verbs")) >= 18
