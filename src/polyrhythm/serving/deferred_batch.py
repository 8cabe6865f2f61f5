"""Deferred batches: a batch that is not full waits for more requests until its head must begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.serving.batcher import BatchChoice, finish
from polyrhythm.serving.early_drop import EarlyDrop, last_start
from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot

_EARLY = EarlyDrop()


@dataclass(frozen=True, slots=True)
@checked
class DeferredBatch:
    """Begin when the batch is full, or when its head cannot wait longer, less `margin` seconds; drop early (Chen et al., 2023, Symphony).

    The machine is idle although requests wait. That pays with many machines and models, where another batch takes its place.
    """

    margin: float = 0.001

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise CompositionError(f"DeferredBatch(margin={self.margin}) would begin too late: give 0 seconds or more.")

    def choose(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> BatchChoice:
        """A full batch, or one that must begin; else nothing before the moment at which it must."""
        chosen = _EARLY.choose(queue, now, slot)
        waiting = queue[len(chosen.drops) :]
        if not waiting or len(waiting) >= slot.batch:
            return chosen
        latest = waiting[0].deadline - finish(slot, 0.0, min(slot.batch, len(waiting) + 1)) - self.margin
        return chosen if now >= latest else BatchChoice((), chosen.drops, latest)

    def drop_time(self, queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
        """The last moment at which the batch of the head could have begun."""
        return last_start(queue, slot)

    def expired(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> tuple[InferenceRequest, ...]:
        """The heads whose batch would have had to begin before `now`."""
        return _EARLY.expired(queue, now, slot)
