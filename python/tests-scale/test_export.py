"""Parquet files of paths, as other people's programs read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import FIXTURES

import npcov

IMAGES = str(FIXTURES / "fashion-1000.npz")
MODEL = str(FIXTURES / "lenet.onnx")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> npcov.DecisionGraph:
    path = tmp_path_factory.mktemp("graph") / "graph.npcov"
    return npcov.Model(MODEL, divide=255).build(IMAGES, limit=700, output=path)


def exported(graph: npcov.DecisionGraph, folder: Path, *options: str) -> Any:
    command = [sys.executable, "-m", "npcov", "export", str(graph._file), "-o", str(folder), *options]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((folder / "_manifest.json").read_text())


@pytest.mark.parametrize("is_url", [False, True])
def test_python_writes_the_files_of_the_command_line(
    is_url: bool, graph: npcov.DecisionGraph, tmp_path: Path
) -> None:
    listed = exported(graph, tmp_path / "command", "--rows", "300")
    place = f"file://{tmp_path}/python" if is_url else tmp_path / "python"
    found = graph.export(place, rows=300)
    assert [file.name for file in found.files] == [file["name"] for file in listed["files"]]
    assert found.folder == str(place)
    for path in (tmp_path / "command").glob("*.parquet"):
        assert (tmp_path / "python" / path.name).read_bytes() == path.read_bytes()
    manifest = json.loads((tmp_path / "python" / "_manifest.json").read_text())
    assert manifest == {**listed, "folder": str(place)}


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_pyarrow_and_polars_read_the_documented_schema(
    kind: str, graph: npcov.DecisionGraph, tmp_path: Path
) -> None:
    folder = tmp_path / "paths"
    listed = exported(graph, folder, "--activations", kind, "--rows", "300")
    neurons = sum(count for _, count in listed["layers"])
    number = pa.float32() if kind == "f32" else pa.float16()
    wanted = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("pred", pa.int32(), nullable=False),
            pa.field("label", pa.int32()),
            pa.field("cluster", pa.int32()),
            pa.field("path", pa.binary(-(-neurons // 8)), nullable=False),
            pa.field("act", pa.list_(pa.field("element", number, nullable=False)), nullable=False),
        ]
    )
    table = pq.read_table(folder)
    assert table.schema.remove_metadata().equals(wanted)
    assert [file["end"] for file in listed["files"]] == [300, 600, 700]
    said = pq.ParquetFile(folder / listed["files"][1]["name"]).metadata.metadata
    assert said[b"npcov.graph"].decode() == graph.id and said[b"npcov.rows"] == b"300-600"

    found = npcov.Model(MODEL, divide=255).predict(IMAGES, limit=700, activations=True)
    names = [name for name in found.arrays if name.startswith("activation")]
    activations = np.concatenate([found.arrays[name].reshape(700, -1) for name in names], axis=1)
    read = np.stack(table["act"].to_numpy())
    assert read.shape == (700, neurons)
    rounded = activations if kind == "f32" else activations.astype(np.float16)
    assert (read == rounded).all()
    assert (table["id"].to_numpy() == np.arange(700)).all()
    assert (table["pred"].to_numpy() == found.logits.argmax(axis=1)).all()
    with np.load(IMAGES) as held:
        assert (table["label"].to_numpy() == held["y"][:700]).all()
    bits = np.unpackbits(
        np.stack([np.frombuffer(path.as_py(), np.uint8) for path in table["path"]]), axis=1, bitorder="little"
    )
    explained = graph.explain(IMAGES, limit=700)
    paths = [explained.arrays[name] for name in explained.arrays if name.startswith("path")]
    assert (bits[:, :neurons] == np.concatenate([path.reshape(700, -1) for path in paths], axis=1)).all()
    assert not bits[:, neurons:].any()

    frame = pl.read_parquet(folder / "*.parquet")
    assert frame.schema["act"] == pl.List(pl.Float32 if kind == "f32" else pl.Float16)
    assert frame["id"].to_list() == list(range(700))
    assert frame["path"].to_list() == table["path"].to_pylist()
    assert (np.array(frame["act"].cast(pl.List(pl.Float32)).to_list(), np.float32) == read.astype(np.float32)).all()
    clusters = frame["cluster"].drop_nulls()
    assert clusters.min() >= 0 and clusters.max() < sum(len(c.clusters) for c in graph.inspect().classes)
