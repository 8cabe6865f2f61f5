"""The composition of pieces into strategies, and the worker's replica that trains by one.

Users and `systems` compose a `Strategy`; `training` plans it for the workers of a run and makes a replica for each model that they attach.
"""

from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.hierarchy.across import Leaders, Stripes
from polyrhythm.core.strategy.hierarchy.hierarchical import Hierarchical
from polyrhythm.core.strategy.strategy import Strategy

__all__ = ["Exchange", "Hierarchical", "Leaders", "Strategy", "Stripes"]
