"""Models and data of other frameworks, where these are installed: `make test-python-full`."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, MODEL

import npcov


def needs(name: str) -> Any:
    """A module; the test is skipped without it, unless all frameworks are to be there."""
    if os.environ.get("NPCOV_PYTHON_FULL"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def test_onnx_protos(images: Any) -> None:
    onnx = needs("onnx")
    proto = onnx.load(MODEL)
    found = npcov.Model(proto, divide=255).predict(images[0][:20]).logits
    assert found.tobytes() == npcov.Model(MODEL, divide=255).predict(images[0][:20]).logits.tobytes()


def resnet18(torch: Any) -> Any:
    """ResNet-18 as in its paper, with random weights."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.relu1 = nn.ReLU()
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.relu2 = nn.ReLU()
            self.short = nn.Sequential()
            if stride != 1 or inside != outside:
                self.short = nn.Sequential(
                    nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
                )

        def forward(self, x: Any) -> Any:
            y = self.relu1(self.bn1(self.conv1(x)))
            return self.relu2(self.bn2(self.conv2(y)) + self.short(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for outside, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Block(inside, outside, stride))
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def test_a_torch_module_goes_to_gaps_without_a_file() -> None:
    torch = needs("torch")
    needs("onnx")
    torch.manual_seed(0)
    module = resnet18(torch).train()
    x = torch.rand(48, 3, 64, 64)
    model = npcov.Model(module, example=x)
    assert module.training, "as it was"
    assert model.file is None and model.classes == 10 and model.input_shape == (3, 64, 64)
    assert any("relu" in name.lower() for name, _ in model.layers)
    # PyTorch's own logits.
    module.eval()
    with torch.no_grad():
        expected = module(x).numpy()
    found = model.predict(x).logits
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    graph = model.build(x, criteria=["snpc", "nc"])
    coverage = graph.cover(x[:8], name="few")
    gaps = coverage.gaps(x)
    assert gaps.suites == ["few"]
    assert "few" in str(coverage)


def test_module_names_are_layer_names() -> None:
    torch = needs("torch")
    needs("onnx")
    nn = torch.nn
    module = nn.Sequential()
    module.add_module("flat", nn.Flatten())
    module.add_module("hidden", nn.Linear(12, 7))
    module.add_module("gate", nn.ReLU())
    module.add_module("out", nn.Linear(7, 3))
    model = npcov.Model(module, example=torch.rand(2, 3, 2, 2))
    assert [(neurons, "gate" in name) for name, neurons in model.layers] == [(7, True)]
    with pytest.raises(TypeError, match="example"):
        npcov.Model(module)
    with pytest.raises(npcov.ModelError, match="batch axis"):
        npcov.Model(module, example=torch.rand(12))


def test_tensors_are_read_where_they_lie(images: Any) -> None:
    torch = needs("torch")
    model = npcov.Model(MODEL, divide=255)
    expected = model.predict(images[0][:20], images[1][:20])
    x, y = torch.from_numpy(images[0][:20].copy()), torch.from_numpy(images[1][:20].astype(np.int64))
    found = model.predict(x, y)
    assert found.logits.tobytes() == expected.logits.tobytes() and found.accuracy == expected.accuracy
    from npcov._data import array

    assert array(x).ctypes.data == x.data_ptr(), "no copy"
    halves = model.predict(x.to(torch.bfloat16)).logits
    assert halves.shape == expected.logits.shape
    wanting = torch.rand(4, 28, 28, requires_grad=True)
    assert model.predict(wanting).logits.shape == (4, 10)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=7)
    assert model.predict(loader).logits.tobytes() == expected.logits.tobytes()


def test_keras_models_go_to_gaps() -> None:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    keras = needs("keras")
    needs("tf2onnx")
    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(3),
        ]
    )
    x = np.random.default_rng(0).random((60, 12, 12, 1), np.float32)
    model = npcov.Model(net)
    expected = np.asarray(net(x))
    found = model.predict(x).logits
    assert np.abs(found - expected).max() < 1e-5
    coverage = model.build(x).cover(x[:20], name="few")
    assert coverage.gaps(x).suites == ["few"]


def test_the_export_of_keras_in_the_fixtures(images: Any) -> None:
    model = npcov.Model(FIXTURES / "keras.onnx", divide=255)
    x, y = images
    graph = model.build(x[:200], y[:200])
    assert graph.cover(x[200:], y[200:]).gaps() is not None


def test_frames(images: Any) -> None:
    pandas = needs("pandas")
    polars = needs("polars")
    x, y = images
    model = npcov.Model(MODEL, divide=255)
    expected = model.predict(x[:20], y[:20])
    flat = x[:20].reshape(20, -1)
    frame = pandas.DataFrame(flat)
    labels = pandas.Series(y[:20])
    assert model.predict(frame, labels).logits.tobytes() == expected.logits.tobytes()
    images_column = pandas.Series(list(x[:20]))
    found = model.predict(images_column, labels)
    assert found.logits.tobytes() == expected.logits.tobytes() and found.accuracy == expected.accuracy
    table = polars.DataFrame(flat, schema=[str(i) for i in range(flat.shape[1])])
    assert model.predict(table, polars.Series(y[:20])).logits.tobytes() == expected.logits.tobytes()
    with pytest.raises(npcov.DataError, match="numbers"):
        model.predict(pandas.DataFrame({"a": ["x", "y"]}))


def test_results_become_frames(graph: npcov.DecisionGraph, images: Any) -> None:
    needs("pandas")
    coverage = graph.cover(images[0][:80], images[1][:80], name="s")
    frame = coverage.report().to_pandas()
    assert set(frame.columns) >= {"suite", "criterion", "value", "of_random"}
    assert frame.set_index("criterion").loc["snpc", "value"] == coverage.report().suites[0].criteria["snpc"]
    assert len(graph.inspect().to_pandas()) >= 10
    assert len(graph.select(images[0][:20], by="random", count=3).to_pandas()) == 3


def test_bars_of_tqdm(images: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    needs("tqdm")
    monkeypatch.setattr("npcov._progress._PATIENCE", 0.0)
    npcov.Model(MODEL, divide=255).predict(images[0], progress=True)
    assert "predict: 100%" in capsys.readouterr().err
