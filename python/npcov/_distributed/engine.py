"""What an engine must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._data import array
from ..errors import DataError
from .worker import Columns, Piece, Span

# A function on a worker: what all tasks share, the piece of this one, and its rows where they are handed over.
Work = Callable[..., Any]


class Rows(ABC):
    """Rows of a dataset, in an order that does not change."""

    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    def id(self, row: int) -> Any:
        """What the dataset calls a row; by default, its number."""
        return row


class ArrayRows(Rows):
    """Rows of arrays on the driver: each task gets its own along with its piece."""

    def __init__(self, x: Any, y: Any = None) -> None:
        self._columns = {"x": array(x)}
        if y is not None:
            self._columns["y"] = array(y)
        if len({len(values) for values in self._columns.values()}) != 1:
            raise DataError("there is not one label for each sample")

    def count(self) -> int:
        return len(self._columns["x"])

    def columns(self, span: Span) -> Columns:
        """Some of the rows."""
        return {name: values[span[0] : span[1]] for name, values in self._columns.items()}


class Engine(ABC):
    """Calls functions on workers."""

    @abstractmethod
    def slots(self) -> int:
        """How many tasks run at the same time."""

    @abstractmethod
    def run(
        self, work: Work, shared: Mapping[str, Any], pieces: Sequence[Piece], rows: Rows | None
    ) -> Iterator[tuple[int, Any]]:
        """Calls ``work(shared, piece, columns)`` for each piece, and gives results as they come, by the piece's place.

        ``shared`` reaches every worker process once, by its digest. Where there are ``rows``, ``columns`` are those of
        ``piece.source``; else ``None``. The task of a worker that dies is repeated on another one; what still fails is
        :class:`Failed`.
        """
