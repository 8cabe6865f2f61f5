"""The protocol of batchers: which of the waiting requests of one session run now, and which are given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """A decision about one queue: `batch` starts now, `drops` are answered now, and at `wake` is something to decide again.

    `wake` is None where nothing is to be decided before another request comes.
    """

    batch: tuple[InferenceRequest, ...] = ()
    drops: tuple[InferenceRequest, ...] = ()
    wake: float | None = None


class Batcher(Protocol):
    """A pure rule for one session's queue, which is ordered by deadline. The simulator and a server call the same one.

    A machine asks `choose` when it is free, and `expired` at `drop_time` while it is not: who cannot be served is answered at once.
    """

    def choose(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> BatchChoice:
        """The batch that starts at `now`, at most the slot's, and the requests that are given up."""

    def drop_time(self, queue: Sequence[InferenceRequest], slot: DutySlot) -> float:
        """The time from which the head of the queue cannot be served any more; infinite where none is ever given up."""

    def expired(self, queue: Sequence[InferenceRequest], now: float, slot: DutySlot) -> tuple[InferenceRequest, ...]:
        """The requests that are given up at `now` on a machine that is not free."""


def finish(slot: DutySlot, now: float, batch: int) -> float:
    """The time at which a batch of that size that starts at `now` is answered."""
    return now + slot.profile.latency(batch) + slot.profile.after
