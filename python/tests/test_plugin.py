"""The plugin of pytest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import IMAGES, MODEL


def test_assert_coverage(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import numpy as np, pytest
        from npcov.pytest import assert_coverage

        data = np.load({IMAGES!r})
        x, y = data["x"], data["y"]

        @pytest.fixture
        def graph(npcov_graph):
            return npcov_graph({MODEL!r}, x[:300], y[:300], divide=255, alpha=0.9)

        def test_enough(graph):
            coverage = assert_coverage(graph, x[300:500], y[300:500], snpc="0.5*random", accuracy=0.5)
            assert coverage.suites == {{"suite": 200}}

        def test_half(graph):
            few = (y < 5) & (np.arange(1000) < 500)
            assert_coverage(graph, x[few], y[few], snpc="0.9*random", thin=False)
        """
    )
    found = pytester.runpytest_subprocess()
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(["*SNPC*", "*class 9*"])
    kept = list((pytester.path / ".pytest_cache").glob("**/npcov/*.npcov"))
    assert len(kept) == 1, "both tests use one graph"
    before = kept[0].stat().st_mtime_ns
    pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    assert kept[0].stat().st_mtime_ns == before, "the next run opens it"


def test_of_two_processes_one_builds(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import os, time
        from pathlib import Path

        def test_graph(npcov_graph):
            Path(os.environ["OWN"]).touch()
            while not Path(os.environ["OTHER"]).exists():
                time.sleep(0.001)
            assert npcov_graph({MODEL!r}, {IMAGES!r}, divide=255).id
        """
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    both = []
    for own, other in (("one", "two"), ("two", "one")):
        names = {**os.environ, "OWN": own, "OTHER": other}
        both.append(subprocess.Popen(command, cwd=pytester.path, env=names, stdout=subprocess.PIPE, text=True))
    for process in both:
        said, _ = process.communicate()
        assert process.returncode == 0, said
    kept = list((pytester.path / ".pytest_cache").glob("**/npcov/*.npcov"))
    assert len(kept) == 1
