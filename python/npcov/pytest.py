"""Coverage in tests of pytest.

The plugin is there as soon as npcov is installed::

    from npcov.pytest import assert_coverage

    def test_the_suite_tries_what_training_showed(npcov_graph):
        graph = npcov_graph("model.onnx", train_x, train_y, divide=255)
        assert_coverage(graph, test_x, test_y, snpc="0.8*random", thin=False)

A failure prints which rules do not hold, and what the suite is missing.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._coverage import Coverage
    from ._graph import DecisionGraph

__all__ = ["assert_coverage", "npcov_graph"]


def assert_coverage(
    graph: DecisionGraph,
    x: Any,
    y: Any = None,
    *,
    against: Coverage | None = None,
    thin: bool = True,
    name: str = "suite",
    cover: dict[str, Any] | None = None,
    **rules: Any,
) -> Coverage:
    """Fails unless a suite covers enough.

    ``rules`` are criteria and what each must reach: ``snpc="0.8*random"``, ``accuracy=0.9``. ``thin=False`` allows no
    class with far fewer inputs than training would let expect. With ``against``, nothing of that earlier coverage may
    be lost. ``cover`` are options for :meth:`DecisionGraph.cover`.
    """
    __tracebackhide__ = True
    coverage = graph.cover(x, y, name=name, progress=False, **(cover or {}))
    check = coverage.check(
        fail_under={rule.replace("_", "-"): bound for rule, bound in rules.items()} or None,
        fail_on_thin=not thin,
        against=against,
    )
    if not check:
        pytest.fail(f"{check}\n{coverage.gaps()}", pytrace=False)
    return coverage


@pytest.fixture(scope="session")
def npcov_graph(request: pytest.FixtureRequest) -> Callable[..., DecisionGraph]:
    """Builds decision graphs, and keeps them in pytest's cache: the next run with the same model, data, and options
    opens them. Of several processes that need one graph, as those of pytest-xdist, one builds it and the others wait.

    ``npcov_graph(model, x, y, **options)``; options are those of ``Model`` and of ``build``. ``pytest --cache-clear``
    forgets all graphs.
    """
    from . import Model, _options
    from ._data import Data, as_data
    from ._graph import DecisionGraph
    from ._model import _name
    from ._npcov import version

    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("npcov")) if cache is not None else None

    def build(model: Any, x: Any, y: Any = None, **options: Any) -> DecisionGraph:
        names = ("example", "class_names", "preprocess")
        opening = {k: v for k, v in options.items() if k in names or _options.is_of_model(k)}
        rest = {k: v for k, v in options.items() if k not in opening}
        opened = model if isinstance(model, Model) else Model(model, **opening)
        data = as_data(x, y, preprocess=opened._preprocess)
        built: DecisionGraph
        if folder is None:
            built = opened.build(data, shard=None, progress=False, **rest)
            return built
        calibration = rest.pop("calibration", None)
        if calibration is not None:
            rest["calibration"] = as_data(calibration, preprocess=opened._preprocess)
        known = {k: opened._model.digest(v._samples) if isinstance(v, Data) else v for k, v in rest.items()}
        made = repr(
            (
                version,
                opened.sha256,
                opened._model.digest(data._samples),
                opened._class_names,
                None if opened._preprocess is None else _name(opened._preprocess),
                sorted(opened._options.items()),
                sorted(known.items()),
            )
        )
        path = folder / f"{hashlib.sha256(made.encode()).hexdigest()[:24]}.npcov"
        with _alone(path.with_suffix(".lock")):
            if path.exists():
                return DecisionGraph(path, opened, preprocess=opened._preprocess)
            built = opened.build(data, shard=None, output=path, progress=False, **rest)
            return built

    return build


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Waits until no other process has the lock, which goes with its process."""
    with open(lock, "ab") as file:
        while not _locked(file.fileno()):
            time.sleep(0.1)
        yield


if sys.platform == "win32":
    import msvcrt

    def _locked(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
