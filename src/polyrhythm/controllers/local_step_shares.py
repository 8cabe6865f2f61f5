"""Local steps in proportion to a worker's speed, so that all workers exchange equally often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.controllers.check import check_every
from polyrhythm.core.protocols.controller import ControlledSetting, ControllerTraits, Decision, Measurements
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class LocalStepShares:
    """⌊v / v_max · most⌋ local steps for a worker of v steps a second, the fastest of v_max (dynamic local updates; Liu et al., 2024).

    A slow worker then exchanges as often as a fast one, and its updates are no staler.
    """

    most: int = 10
    every: int = 10

    def __post_init__(self) -> None:
        check_every(self, self.every)
        if not self.most >= 1:
            raise CompositionError(f"{self!r} allows no step: give most=1 or more for the fastest worker.")

    @property
    def traits(self) -> ControllerTraits:
        """It sets the number of local steps, by the speed of all workers."""
        return ControllerTraits(frozenset({ControlledSetting.LOCAL_STEPS}), self.every, sees_others=True)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The worker's number of steps, once all workers have reported their speed."""
        if len(measured.workers) < measured.group_size:
            return (), state
        fastest = min(each.seconds for each in measured.workers.values())
        steps = int(self.most * max(fastest, 1e-9) / max(measured.mine.seconds, 1e-9) + 1e-6)  # 1e-6 against rounding errors
        return (Decision(ControlledSetting.LOCAL_STEPS, max(1, min(self.most, steps))),), state
