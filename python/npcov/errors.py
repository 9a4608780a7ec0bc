"""What can go wrong.

All errors are :class:`NpcovError`, with the text that the command line would print and, where it knows one, a
``hint``. Those that a program might want to tell apart have classes of their own, which are also what Python
calls such errors.

>>> import npcov
>>> try:
...     npcov.Model("nowhere.onnx")
... except npcov.ModelError as error:
...     print("nowhere.onnx" in str(error))
True
"""

from __future__ import annotations


class NpcovError(Exception):
    """An error of npcov: a message, and what can be done about it."""

    hint: str | None

    def __init__(self, message: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint)


class ModelError(NpcovError, ValueError):
    """A model cannot be read, understood, explained or run."""


class DataError(NpcovError, ValueError):
    """Data cannot be read, or does not fit the model."""


class ArtefactError(NpcovError, ValueError):
    """A decision graph or coverage cannot be read, or does not belong to what it is used with."""


class OptionError(NpcovError, ValueError):
    """An option has a value that it cannot have."""


class ShardError(NpcovError, RuntimeError):
    """Parts of distributed work failed, however often they were tried; what is finished is kept."""


class NpcovWarning(UserWarning):
    """Something can be done, and is probably not meant."""
