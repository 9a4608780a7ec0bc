"""A driver does not wait for ever for workers that do not come back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcov


def fatal(batch: Any) -> Any:
    """Preprocessing that kills its worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_dask_without_workers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conftest import MODEL

    import npcov.dask

    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(npcov.dask, "_LOOK", 0.5)
    monkeypatch.setattr(npcov.dask, "_ALONE", 2.0)
    x = np.zeros((600, 784), np.uint8)
    # A worker takes longer than that to start.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}):
        with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster, set_as_default=False) as client:
                model = npcov.Model(MODEL, preprocess=fatal)
                with pytest.raises(npcov.ShardError, match="no worker for"):
                    npcov.dask.build(model, x, np.zeros(600, np.int64), output=tmp_path / "graph.npcov", client=client)


def test_an_error_of_a_task_is_not_taken_for_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    import npcov.dask

    distributed = pytest.importorskip("distributed")

    def late() -> None:
        raise distributed.TimeoutError("late")

    with distributed.Client(processes=False, n_workers=1, dashboard_address=None, set_as_default=False) as client:
        found = npcov.dask._outcome(client, client.submit(late, pure=False))
        assert isinstance(found, distributed.TimeoutError) and str(found) == "late"
