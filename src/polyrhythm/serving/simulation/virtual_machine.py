"""A machine in virtual time: it runs one batch after the other for as long as its profile says."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polyrhythm.serving.machine_queue import MachineQueue
from polyrhythm.serving.requests import Dropped, InferenceRequest, Ok, Overdue, ServingOutcome
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan
from polyrhythm.serving.turns import DutyTurns

Settle = Callable[[InferenceRequest, ServingOutcome], None]
At = Callable[[float, Callable[[], None]], None]

_OVER, _UNDER = 0.01, 1.0


class VirtualServer:
    """The queue of a machine, and the batch that runs; `at` calls something at a later time, `answer` gives a request its outcome.

    A batch takes its p99 latency less up to `spread` of it; one in a hundred takes that much more.
    """

    def __init__(self, plan: MachinePlan, turns: DutyTurns, at: At, answer: Settle) -> None:
        self.queue = MachineQueue(plan, turns)
        self.alive = True
        self.busy_until = 0.0
        self.batches: list[tuple[float, str, int]] = []
        self._at, self._answer = at, answer
        self._running: tuple[InferenceRequest, ...] = ()
        self._armed = math.inf
        self._stamp = 0

    @property
    def running(self) -> int:
        """The number of requests in the batch that runs."""
        return len(self._running)

    def add(self, request: InferenceRequest, now: float, pace: Pace) -> None:
        """A request comes; a machine that is lost keeps it without a word."""
        self.queue.add(request)
        self.decide(now, pace)

    def decide(self, now: float, pace: Pace) -> None:
        """Give up what cannot be served, and start a batch if the machine is free."""
        if not self.alive:
            return
        if self._running:
            for request, reason in self.queue.expired(now):
                self._answer(request, Dropped(now, reason))
            self._arm(now, self.queue.drop_time(), pace)
            return
        chosen = self.queue.choose(now)
        for request, reason in chosen.drops:
            self._answer(request, Dropped(now, reason))
        if chosen.slot is None:
            self._arm(now, math.inf if chosen.wake is None else chosen.wake, pace)
            return
        self._running, slot = chosen.batch, chosen.slot
        self.busy_until = now + slot.profile.latency(len(chosen.batch)) * pace(slot.profile.spread)
        self.batches.append((now, slot.session, len(chosen.batch)))
        self._at(self.busy_until, lambda: self._end(slot, pace))
        self._arm(now, self.queue.drop_time(), pace)

    def lose(self) -> None:
        """The machine stops; what it has is known to nobody until `stranded` is asked."""
        self.alive = False
        self._stamp += 1

    def stranded(self, now: float) -> None:
        """Answer all that a lost machine had: the loss was noticed."""
        for request in (*self._running, *self.queue.clear()):
            self._answer(request, Dropped(now, "machine lost"))
        self._running = ()

    def _end(self, slot: DutySlot, pace: Pace) -> None:
        if not self.alive:
            return
        now = self.busy_until
        finished = now + slot.profile.after
        for request in self._running:
            self._answer(request, (Ok if finished <= request.deadline + 1e-9 else Overdue)(finished))
        self._running = ()
        self.decide(now, pace)

    def _arm(self, now: float, moment: float, pace: Pace) -> None:
        """Decide again at `moment`, in place of any later moment that was set before."""
        if moment == math.inf:
            return
        self._stamp += 1
        stamp, moment = self._stamp, max(moment, now)
        self._at(moment, lambda: self.decide(moment, pace) if stamp == self._stamp else None)


Pace = Callable[[float], float]
"""The part of its p99 latency that the next batch takes, of a profile with that spread."""


def paced(spread: float, draws: np.random.Generator) -> Pace:
    """Batches take their p99 latency less up to `spread` of it, or their profile's if that is more; one in a hundred as much more."""

    def pace(own: float) -> float:
        wide = max(spread, own)
        if wide == 0:
            return 1.0
        return 1.0 + wide if draws.random() < _OVER else 1.0 - wide * float(draws.random()) * _UNDER

    return pace
