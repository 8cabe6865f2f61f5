"""Early drop: the head of a queue is given up as soon as it would make the batches behind it small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.serving.batcher import BatchChoice, finish
from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot


@dataclass(frozen=True, slots=True)
@checked
class EarlyDrop:
    """Give up heads that a whole batch would answer too late, and run the rest at once (Shen et al., 2019, section 6.3).

    Waiting for the oldest request to be the one that limits the batch makes every batch small under load, and then all are late.
    """

    def choose(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> BatchChoice:
        """The first requests that a batch of theirs answers in time."""
        first = _first_in_time(queue, now, slot)
        return BatchChoice(tuple(queue[first : first + slot.batch]), tuple(queue[:first]))

    def drop_time(self, queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
        """The last moment at which the batch of the head could have begun."""
        return last_start(queue, slot)

    def expired(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> tuple[InferenceRequest, ...]:
        """The heads whose batch would have had to begin before `now`; more requests only make it longer."""
        return tuple(queue[: _first_in_time(queue, now, slot)])


def last_start(queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
    """The last moment at which the batch of the head can begin; infinite for an empty queue."""
    if not queue:
        return math.inf
    return queue[0].deadline - finish(slot, 0.0, min(slot.batch, len(queue)))


def _first_in_time(queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> int:
    first = 0
    while first < len(queue) and queue[first].deadline < finish(slot, now, min(slot.batch, len(queue) - first)):
        first += 1
    return first
