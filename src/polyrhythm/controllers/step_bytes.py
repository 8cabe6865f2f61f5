"""Packets of as many bytes as the link to each receiver carries during a step."""

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
class StepBytes:
    """A packet may have `share` times the bytes that its link carries in a step (per-link prioritized exchange of DLion; HPDC 2021)."""

    every: int = 5
    share: float = 1.0

    def __post_init__(self) -> None:
        check_every(self, self.every)
        if not self.share > 0:
            raise CompositionError(f"{self!r} would send nothing: give a share above 0 of what a link carries.")

    @property
    def traits(self) -> ControllerTraits:
        """It sets the bytes of packets, for each receiver."""
        return ControllerTraits(frozenset({ControlledSetting.NBYTES}), self.every)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The bytes for each receiver to which enough was sent to measure the bandwidth; 1 or more, since 0 sets no bound."""
        step = self.share * measured.mine.seconds
        rates = {name: rate for name, rate in measured.bandwidths.items() if name}
        return [Decision(ControlledSetting.NBYTES, float(max(1, int(rate * step))), name) for name, rate in rates.items()], state
