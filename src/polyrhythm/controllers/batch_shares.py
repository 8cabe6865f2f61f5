"""Batches in proportion to the workers' speed, so that a step takes equally long at all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from polyrhythm.controllers.check import check_every
from polyrhythm.core.protocols.controller import ControlledSetting, ControllerTraits, Decision, Measurements
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class BatchShares:
    """Of P · b samples a step a worker takes its share of the samples that all compute in a second (DLion; HPDC 2021).

    b is the batch size of the training function, which a worker had before its first decision. With `growth` above 1 the sum grows
    by this factor at every decision until it is `most` times as large.
    """

    every: int = 10
    growth: float = 1.0
    most: float = 1.0

    def __post_init__(self) -> None:
        check_every(self, self.every)
        if not (1 <= self.growth < math.inf and 1 <= self.most < math.inf):
            raise CompositionError(f"{self!r} cannot be: give a growth and a largest multiple of 1 or more.")

    @property
    def traits(self) -> ControllerTraits:
        """It sets batches, by the speed of all workers."""
        return ControllerTraits(frozenset({ControlledSetting.BATCH}), self.every, sees_others=True)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The worker's batch, once all workers have reported their speed."""
        batch = state.get("batch", torch.tensor(measured.mine.samples))
        state = {"batch": batch}
        if len(measured.workers) < measured.group_size:
            return (), state
        speeds = {name: each.samples / max(each.seconds, 1e-9) for name, each in measured.workers.items()}
        total = sum(speeds[name] for name in sorted(speeds))
        if not total:  # the samples of a step count with the first of several models
            return (), state
        grown = min(self.most, self.growth ** (measured.clock // self.every - 1))
        share = measured.group_size * batch.item() * grown * speeds[measured.name] / total
        return (Decision(ControlledSetting.BATCH, max(1, round(share))),), state
