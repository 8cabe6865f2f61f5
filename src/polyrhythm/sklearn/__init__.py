"""Estimators of scikit-learn whose `fit` is a run: `pr.sklearn.Classifier` and `pr.sklearn.Regressor`.

They are derived from scikit-learn's classes, against the rule for our own, and have as many parameters as it wants of estimators: each
setting is one, so that searches can vary it. scikit-learn is imported when the first of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyrhythm.core.lazy_names import lazy_names

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


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
