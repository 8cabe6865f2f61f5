"""`--shares`: the workers' parts of the samples of each step, where their machines are not equally fast."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.shuffle import ByShares


def with_shares(strategy: Strategy, text: str | None, crew: Crew) -> Strategy:
    """The strategy in which each worker has its share of every step.

    Raises CompositionError for text that is no shares, for another number of them than there are workers, and for a strategy whose workers
    need equal batches.
    """
    if text is None:
        return strategy
    try:
        shares = tuple(float(each) for each in text.split(","))
    except ValueError:
        raise CompositionError(f"--shares {text}: write a number for each worker, such as 3,2,1.") from None
    if len(shares) != crew.number("A run with --shares"):
        raise CompositionError(f"--shares {text} are {len(shares)}, and there are {crew} workers: give one for each.")
    return replace(strategy, shuffle=ByShares(tuple(int(each) if each.is_integer() else each for each in shares)))
