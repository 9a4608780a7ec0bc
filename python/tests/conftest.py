from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcov

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
IMAGES = str(FIXTURES / "fashion-1000.npz")
MODEL = str(FIXTURES / "mlp-matlab.onnx")

pytest_plugins = ["pytester"]


class CommandLine:
    """The command that the package installs, or the one that `NPCOV_COMMAND` names, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        named = os.environ.get("NPCOV_COMMAND")
        command = [*([named] if named else [sys.executable, "-m", "npcov"]), *map(str, words)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def json(self, *words: object, code: int = 0) -> Any:
        found = self.run(*words, "--format", "json")
        assert found.returncode == code, found.stderr
        return json.loads(found.stdout)


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture(scope="session")
def images() -> tuple[np.ndarray, np.ndarray]:
    with np.load(IMAGES) as held:
        return held["x"], held["y"]


@pytest.fixture(scope="session")
def model() -> npcov.Model:
    return npcov.Model(MODEL, divide=255)


@pytest.fixture(scope="session")
def graph(model: npcov.Model, tmp_path_factory: pytest.TempPathFactory) -> npcov.DecisionGraph:
    path = tmp_path_factory.mktemp("graph") / "graph.npcov"
    return model.build(npcov.Data(IMAGES), limit=300, output=path)


def png(gray: np.ndarray) -> bytes:
    """A picture as a file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in gray)
    head = struct.pack(">IIBBBBB", gray.shape[1], gray.shape[0], 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
