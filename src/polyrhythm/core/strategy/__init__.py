"""The composition of pieces, and the worker's replica that lives by it."""

from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.hierarchy.across import Leaders, Stripes
from polyrhythm.core.strategy.hierarchy.hierarchical import Hierarchical
from polyrhythm.core.strategy.strategy import Strategy

__all__ = ["Exchange", "Hierarchical", "Leaders", "Strategy", "Stripes"]
