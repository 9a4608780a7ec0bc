"""Coverage for neural networks: which decision logic does a test suite exercise, and which does it miss?

A :class:`Model` learns a :class:`DecisionGraph` from training data. The graph measures suites; their
:class:`Coverage` is a report for people and programs, says what is missing, and passes or fails a check.

>>> import npcov, numpy as np
>>> data = np.load(fixture("fashion-1000.npz"))
>>> model = npcov.Model(fixture("mlp-matlab.onnx"), divide=255)
>>> graph = model.build(data["x"][:300], data["y"][:300])
>>> coverage = graph.cover(data["x"][300:500], data["y"][300:500], name="test")
>>> bool(coverage.check(fail_under={"accuracy": 0.5}))
True

Options have the names of the command line, with underscores; ``npcov build --help`` explains them. Artefacts are
the same files.
"""

from __future__ import annotations

from . import errors
from ._coverage import Coverage, merge
from ._data import Data
from ._graph import DecisionGraph
from ._model import Model, inspect
from ._npcov import version as __version__
from ._results import (
    AttackResult,
    BadRow,
    BuiltPart,
    Check,
    Compilation,
    CoverageInspection,
    Explanation,
    Explanations,
    Exported,
    Gaps,
    GraphInspection,
    Inspection,
    Minimization,
    Mutation,
    Predictions,
    Record,
    Report,
    Result,
    Selection,
    Tuning,
)
from .errors import ArtefactError, DataError, ModelError, NpcovError, NpcovWarning, OptionError, ShardError

__all__ = [
    "ArtefactError",
    "AttackResult",
    "BadRow",
    "BuiltPart",
    "Check",
    "Compilation",
    "Coverage",
    "CoverageInspection",
    "Data",
    "DataError",
    "DecisionGraph",
    "Explanation",
    "Explanations",
    "Exported",
    "Gaps",
    "GraphInspection",
    "Inspection",
    "Minimization",
    "Model",
    "ModelError",
    "Mutation",
    "NpcovError",
    "NpcovWarning",
    "OptionError",
    "Predictions",
    "Record",
    "Report",
    "Result",
    "Selection",
    "ShardError",
    "Tuning",
    "__version__",
    "errors",
    "inspect",
    "merge",
]
