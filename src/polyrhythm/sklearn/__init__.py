"""Estimators of scikit-learn whose `fit` is a run: `pr.sklearn.Classifier` and `pr.sklearn.Regressor`.

They are derived from scikit-learn's classes, against the rule for our own, and have as many parameters as it wants of estimators: each
setting is one, so that searches can vary it. scikit-learn is imported when the first of them is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyrhythm.sklearn.classifier import Classifier as Classifier
    from polyrhythm.sklearn.perceptron import MultilayerPerceptron as MultilayerPerceptron
    from polyrhythm.sklearn.regressor import Regressor as Regressor

__all__ = ["Classifier", "MultilayerPerceptron", "Regressor"]

_HOMES = {
    "Classifier": "polyrhythm.sklearn.classifier",
    "MultilayerPerceptron": "polyrhythm.sklearn.perceptron",
    "Regressor": "polyrhythm.sklearn.regressor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'polyrhythm.sklearn' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
