"""Engines with two workers each, and 20,000 inputs that one process has measured before."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import npcov

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MODEL = str(FIXTURES / "mlp-matlab.onnx")

# Inputs of every suite.
INPUTS = int(os.environ.get("NPCOV_SCALE_INPUTS", "20000"))

# What graphs are learnt with: clustering of so many inputs is not what is tested here.
OPTIONS: dict[str, Any] = {"clustering": "kmeans", "restarts": 1}

# Those of coverage.
CRITERIA = ["snpc", "anpc", "nc", "kmnc"]


@dataclass
class Cluster:
    """An engine that runs, and how it makes datasets."""

    module: ModuleType
    # A dataset of a Parquet file.
    parquet: Callable[[Path], Any]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Cluster]:
    import npcov.ray

    # A machine that is busy takes its time to start.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "300000")
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "300")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    ray = pytest.importorskip("ray")
    for attempt in range(5):
        try:
            ray.init(num_cpus=2, include_dashboard=False, object_store_memory=2 << 30, log_to_driver=False)
            break
        except Exception as error:
            # Ray gives its node 30 seconds, which no setting changes.
            if attempt == 4 or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
    yield Cluster(npcov.ray, lambda path: ray.data.read_parquet(str(path)))
    ray.shutdown()


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Cluster]:
    import npcov.dask

    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    frames = pytest.importorskip("dask.dataframe")
    # A worker that is killed again while it is on its way back would be given up.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"})
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            yield Cluster(npcov.dask, lambda path: frames.read_parquet(path, index=False))


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    import npcov.spark

    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime: `apt-get install default-jre-headless`")
    sql = pytest.importorskip("pyspark.sql")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Two tasks at a time, each in a Python process of its own, and four attempts for each.
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "1024")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield Cluster(npcov.spark, lambda path: spark.read.parquet(str(path)))
    spark.stop()


@pytest.fixture(params=["ray", "dask", "spark"], scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return found


@dataclass
class Inputs:
    """Inputs in memory and in files."""

    x: Any
    y: Any
    # A table with a column for each pixel, the same with a column that numbers rows, and lists of pixels with one.
    table: Path
    numbered: Path
    lists: Path
    images: Path


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Clothing, each piece several times with other noise."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("inputs")
    with np.load(FIXTURES / "fashion-1000.npz") as held:
        x, y = held["x"].reshape(1000, 784), held["y"]
    random = np.random.default_rng(21)
    rows = np.arange(INPUTS) % 1000
    noise = random.integers(-20, 21, (INPUTS, 784))
    x = np.clip(x[rows].astype(np.int64) + noise, 0, 255).astype(np.uint8)
    y = y[rows].astype(np.int64)
    columns = {f"p{i:03}": x[:, i] for i in range(784)}
    pq.write_table(pa.table({**columns, "y": y}), folder / "table.parquet", row_group_size=4096)
    numbered = pa.table({"id": np.arange(INPUTS), **columns, "y": y})
    pq.write_table(numbered, folder / "numbered.parquet", row_group_size=4096)
    write_lists(folder / "lists.parquet", x.astype(np.float32), y)
    images = folder / "images"
    write_images(images, x, y)
    return Inputs(
        x, y, folder / "table.parquet", folder / "numbered.parquet", folder / "lists.parquet", images
    )


@pytest.fixture(scope="session")
def model() -> npcov.Model:
    return npcov.Model(MODEL, divide=255)


@dataclass
class Alone:
    """What one process makes of some data."""

    graph: bytes
    state: bytes


@pytest.fixture(scope="session")
def alone(model: npcov.Model, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Alone]:
    found: dict[str, Alone] = {}

    def make(name: str, *data: Any, by: npcov.Model = model) -> Alone:
        if name not in found:
            folder = tmp_path_factory.mktemp("alone")
            graph = by.build(*data, output=folder / "graph.npcov", **OPTIONS)
            graph.cover(*data, name="suite", criteria=CRITERIA, output=folder / "state.npcov")
            paths = [folder / "graph.npcov", folder / "state.npcov"]
            found[name] = Alone(*[path.read_bytes() for path in paths])
        return found[name]

    return make


@pytest.fixture(scope="session")
def broken(
    inputs: Inputs, alone: Callable[..., Alone], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Alone]:
    """A folder with an image that is none, and what one process makes of it without that one."""
    folder = tmp_path_factory.mktemp("broken") / "images"
    shutil.copytree(inputs.images, folder, copy_function=os.link)
    image = sorted(folder.glob("3/*.png"))[7]
    image.unlink()
    expected = alone("broken", str(folder))
    image.write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    return folder, expected


def write_lists(path: Path, x: Any, y: Any) -> None:
    """A Parquet file with numbered rows of lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pixels = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    table = pa.table({"id": np.arange(len(x)), "x": pixels.cast(pa.list_(pa.float32())), "y": y})
    pq.write_table(table, path, row_group_size=4096)


def write_images(folder: Path, x: Any, y: Any) -> None:
    """A folder of PNG files, with one folder a class."""
    from PIL import Image

    for label in np.unique(y):
        (folder / str(label)).mkdir(parents=True)
    for place, (image, label) in enumerate(zip(x.reshape(-1, 28, 28), y)):
        Image.fromarray(image).save(folder / str(label) / f"{place:06}.png", compress_level=1)
