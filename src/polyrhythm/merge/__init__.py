"""What do contributions do to the model?"""

from polyrhythm.merge.elastic import Elastic
from polyrhythm.merge.mean import Mean
from polyrhythm.merge.outer_optimizer import OuterOptimizer
from polyrhythm.merge.rules import Adagrad, Nesterov
from polyrhythm.merge.staleness_scaled import StalenessScaled
from polyrhythm.merge.sum import Sum

MEMBERS = (Mean(), Sum(), StalenessScaled(), Elastic(), OuterOptimizer(Nesterov()), OuterOptimizer(Adagrad(0.1), Sum()))
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = ["MEMBERS", "Adagrad", "Elastic", "Mean", "Nesterov", "OuterOptimizer", "StalenessScaled", "Sum"]
