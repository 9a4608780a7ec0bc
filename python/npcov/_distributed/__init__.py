"""Work that an engine spreads over machines, with the bytes of one process.

What is here knows no engine. The driver plans: rows become parts, by the same rule as ``build --shard``. Workers do
parts: :mod:`.worker`. What they made is collected and joined on the driver: :mod:`.driver`. An engine calls functions on
workers, tries again what failed, and hands over rows of its datasets: :class:`Engine` and :class:`Rows`.
"""

from __future__ import annotations

from .driver import Source, build, cover
from .engine import ArrayRows, Engine, Rows
from .worker import Columns, Failed, Piece

__all__ = ["ArrayRows", "Columns", "Engine", "Failed", "Piece", "Rows", "Source", "build", "cover"]
