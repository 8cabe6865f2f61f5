"""First in, first out: no request is ever given up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.serving.batcher import BatchChoice
from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot


@dataclass(frozen=True, slots=True)
@checked
class FirstInFirstOut:
    """Run what came first, up to the slot's batch, in time or not: a baseline."""

    def choose(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> BatchChoice:
        """The requests that came first."""
        first = sorted(queue, key=lambda request: (request.arrival, request.number))
        return BatchChoice(tuple(first[: slot.batch]))

    def drop_time(self, queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
        """Infinite: no request is given up."""
        return math.inf

    def expired(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> tuple[InferenceRequest, ...]:
        """Empty: no request is given up."""
        return ()
