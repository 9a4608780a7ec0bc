"""Progress of long work: a bar of tqdm where that is installed, or a callable of the user's."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Union

from .errors import NpcovWarning

# A callable gets what happened ("finished", "resumed", "kept", "damaged", "clustering", "fitting") and a number of
# inputs.
Progress = Union[bool, Callable[[str, int], None], None]

# Work that is done before this shows no bar.
_PATIENCE = 2.0


class _Bar:
    """A bar that appears when work takes long."""

    def __init__(self, total: int | None, words: str) -> None:
        self._total = total
        self._words = words
        self._done = 0
        self._start = time.monotonic()
        self._bar: Any = None

    def __call__(self, event: str, count: int) -> None:
        if event in ("finished", "resumed"):
            self._done += count
            self._show()
            if self._bar is not None:
                self._bar.update(self._done - self._bar.n)
        elif event in ("clustering", "fitting") and self._bar is not None:
            words = {"clustering": "finding clusters", "fitting": "fitting criteria"}
            self._bar.set_postfix_str(words[event])

    def _show(self) -> None:
        if self._bar is None and time.monotonic() - self._start >= _PATIENCE:
            with warnings.catch_warnings():
                # Without widgets, a notebook shows the bar as text.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm

            self._bar = tqdm(total=self._total, desc=self._words, unit="input", file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class watching:
    """Whoever is told of progress, for the time of some work.

    ``True`` is a bar, ``False`` nothing; ``None`` is a bar where tqdm is installed and somebody looks.
    """

    def __init__(self, progress: Progress, total: int | None, words: str) -> None:
        self._bar: _Bar | None = None
        self._callable: Callable[[str, int], None] | None = None
        if callable(progress):
            self._callable = progress
        elif progress or (progress is None and _is_watched()):
            self._bar = _Bar(total, words)
            self._callable = self._bar

    def __enter__(self) -> Callable[[str, int], None] | None:
        return self._callable

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    try:
        import tqdm  # noqa: F401
    except ImportError:
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def warn(messages: list[str], stacklevel: int = 2) -> None:
    """What the command line would warn of, as warnings of Python."""
    for message in messages:
        warnings.warn(message, NpcovWarning, stacklevel=stacklevel + 1)
