"""What a crew that changes cannot have where its workers lead themselves: under `join`, and on engines; both ask before anything begins."""

from __future__ import annotations

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.errors import CompositionError


def refuse_led_by_workers(strategy: Strategy, crew: Crew) -> None:
    """Raise CompositionError for a strategy with servers, or one that leaves some of the workers out."""
    for size in crew.sizes:
        strategy.check(size)
        if (used := strategy.workers(size)) != size:
            raise CompositionError(
                f"{strategy.name} uses {used} of {size} workers, and each of a crew that changes must be used: choose least and most so "
                "that all numbers between them fit, or a strategy for any number."
            )
    if servers := StrategyPlan.of(strategy, unplaced(crew.least), 0).servers:
        raise CompositionError(
            f"{strategy.name} has servers, such as {servers[0]}, and each would be lost with the worker in whose process it is: choose a "
            "strategy whose workers exchange with each other, such as allreduce, diloco or gossip, or give one number of workers."
        )
