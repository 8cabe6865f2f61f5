"""A fixed total batch, divided evenly over the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.controller import ControlledSetting, ControllerTraits, Decision, Measurements
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class TotalBatch:
    """A worker takes `samples` / P samples a step, from its second step on (the μλ rule; Gupta, Zhang, Wang, ICDM 2016, section 5).

    With λ learners of μ samples the error grows with the product μ λ: the more learners there are, the smaller their batches must be.
    The first step has the batch size of the training function.
    """

    traits: ClassVar = ControllerTraits(frozenset({ControlledSetting.BATCH}))

    samples: int

    def __post_init__(self) -> None:
        if not self.samples >= 1:
            raise CompositionError(f"TotalBatch(samples={self.samples}) has nothing to train on: give 1 sample or more.")

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The same batch for all workers, at least 1 sample."""
        return (Decision(ControlledSetting.BATCH, max(1, round(self.samples / measured.group_size))),), state


EXAMPLES = (TotalBatch(12),)
