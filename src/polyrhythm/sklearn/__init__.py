"""Estimators of scikit-learn whose `fit` is a run: `pr.sklearn.Classifier` and `pr.sklearn.Regressor`.

They are derived from scikit-learn's classes, against the rule for our own, and have as many parameters as it wants of estimators: each
setting is one, so that searches can vary it.
"""

from polyrhythm.sklearn.classifier import Classifier as Classifier
from polyrhythm.sklearn.perceptron import MultilayerPerceptron as MultilayerPerceptron
from polyrhythm.sklearn.regressor import Regressor as Regressor

__all__ = ["Classifier", "MultilayerPerceptron", "Regressor"]
