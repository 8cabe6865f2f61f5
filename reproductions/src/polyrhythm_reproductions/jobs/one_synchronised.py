"""Strategies that keep one of several networks the same at all workers, and let each have its own of the others."""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.parameters import Named, Optionally

_NEVER = 10**9


def only(network: str) -> Strategy:
    """Sums of gradients for parameters whose names begin with `network`; the others meet at the end of the run, in a mean."""
    return Strategy(
        name=f"only-{network}",
        exchange=Exchange(consistency=LocalSteps(_NEVER)),
        selected=[(Optionally(Named(f"{network}.*")), Exchange())],
    )
