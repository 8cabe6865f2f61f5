"""The composition of pieces, and the worker's replica that lives by it."""

from polyrhythm.strategy.across import Leaders, Stripes
from polyrhythm.strategy.exchange import Exchange
from polyrhythm.strategy.groups import ByHost, BySite, Given, InGroups, OfSize
from polyrhythm.strategy.hierarchical import Hierarchical
from polyrhythm.strategy.strategy import Strategy

__all__ = ["ByHost", "BySite", "Exchange", "Given", "Hierarchical", "InGroups", "Leaders", "OfSize", "Strategy", "Stripes"]
