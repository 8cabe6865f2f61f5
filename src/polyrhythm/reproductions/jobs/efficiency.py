"""How well a training scales in virtual time."""

from __future__ import annotations

from polyrhythm.reproductions.step_cost import step_cost, timed
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.training.work import Train


def efficiency(train: Train, strategy: str | Strategy, workers: int, on: Simulator) -> float:
    """The seconds of a step alone over those of one among `workers`, each with a batch of the same size (weak scaling)."""
    return step_cost(timed(train, "single", 1, on)).seconds / step_cost(timed(train, strategy, workers, on)).seconds
