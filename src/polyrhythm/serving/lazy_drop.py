"""Lazy drop: a request is given up only when it alone would be late, as in most servers."""

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
class LazyDrop:
    """Give up heads that are late even alone, and run the largest batch that answers the next head in time.

    The baseline of Shen et al., 2019, section 4.3: under load the oldest request has little time left, so batches are small.
    """

    def choose(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> BatchChoice:
        """The largest batch in which the first request that can be in time is."""
        first = len(self.expired(queue, now, slot))
        if first == len(queue):
            return BatchChoice((), tuple(queue))
        most = slot.profile.largest_within(queue[first].deadline - now - slot.profile.after)
        return BatchChoice(tuple(queue[first : first + max(1, min(slot.batch, most))]), tuple(queue[:first]))

    def drop_time(self, queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
        """The last moment at which the head alone could have begun."""
        return queue[0].deadline - finish(slot, 0.0, 1) if queue else math.inf

    def expired(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> tuple[InferenceRequest, ...]:
        """The heads that would be late alone."""
        first = 0
        while first < len(queue) and queue[first].deadline < finish(slot, now, 1):
            first += 1
        return tuple(queue[:first])
