"""Joining a run from a rank that has a seat in one: a rank of a program of torch.distributed in virtual time."""

from __future__ import annotations

from typing import Any

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.seat import Seat
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.work import conclusion
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError


def join_seat(place: Seat, strategy: Strategy, seed: int, group: Any, checkpoints: Checkpoints | None) -> Worker:
    """Make this rank a worker of a run of the ranks of `group`.

    Raises CompositionError for what such a run cannot have.
    """
    if checkpoints is not None:
        raise CompositionError("A worker among ranks in virtual time writes no checkpoints: let the program save its state.")
    context, locations = place.joined(group)
    if (used := strategy.workers(len(locations))) != len(locations):
        raise CompositionError(f"{strategy.name} uses {used} workers, and the group has {len(locations)} ranks: give a group of {used}.")
    plan = StrategyPlan.of(strategy, locations, seed)
    if plan.servers:
        raise CompositionError(
            f"{strategy.name} has servers, such as {plan.servers[0]}, and ranks of torch.distributed exchange with each other alone: "
            "choose a strategy without servers, such as allreduce, diloco or gossip."
        )
    left: list[Run] = []

    def leave() -> Run:
        if not left:
            conclusion(worker)
            worker.close()
            place.left()
            left.append(Run(Outcome(Summary(strategy.name, len(locations), "simulator", None, seed, steps=worker.clock))))
        return left[0]

    worker = Worker(context, plan, None, leave)
    place.leaves(leave)
    return worker
