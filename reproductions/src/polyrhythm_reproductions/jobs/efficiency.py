"""The scaling efficiency of a training in virtual time."""

from __future__ import annotations

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.work import Train
from polyrhythm_reproductions.step_cost import step_cost, timed


def efficiency(train: Train, strategy: str | Strategy, workers: int, on: Simulator) -> float:
    """The seconds of a step alone over those of one among `workers`, each with a batch of the same size (weak scaling)."""
    return step_cost(timed(train, "single", 1, on)).seconds / step_cost(timed(train, strategy, workers, on)).seconds
