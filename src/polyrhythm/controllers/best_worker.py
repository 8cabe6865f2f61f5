"""The worker with the least loss, which the others take as their teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.controllers.check import check_every
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.controller import ControlledSetting, ControllerTraits, Decision, Measurements
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State


@dataclass(frozen=True, slots=True)
@checked
class BestWorker:
    """Every `every` steps a worker learns which worker reported the least loss (DLion; Hong and Chandra, HPDC 2021).

    The loss is the mean of the numbers reported under the name "loss" since the last decision: a training loss, which is least for the
    easiest data, or one on samples that are the same at all workers.
    """

    every: int = 100

    def __post_init__(self) -> None:
        check_every(self, self.every)

    @property
    def traits(self) -> ControllerTraits:
        """It sets the teacher, by the losses of all workers."""
        return ControllerTraits(frozenset({ControlledSetting.TEACHER}), self.every, sees_others=True)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The rank of the best worker; among equals this worker, then the lowest rank. Nothing until a worker has reported a loss."""
        best = min(measured.workers, key=lambda name: (measured.workers[name].loss, name != measured.name, rank_of(name)))
        if measured.workers[best].loss == math.inf:
            return (), state
        return (Decision(ControlledSetting.TEACHER, float(rank_of(best))),), state
