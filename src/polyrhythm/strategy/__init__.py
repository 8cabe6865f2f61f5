"""The composition of pieces, and the worker's replica that lives by it."""

from polyrhythm.strategy.exchange import Exchange
from polyrhythm.strategy.strategy import Strategy

__all__ = ["Exchange", "Strategy"]
