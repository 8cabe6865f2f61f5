"""The queues of one machine, and what is decided about them: the state that the simulator and a server keep for it."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Sequence

from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan
from polyrhythm.serving.turns import CLIENT_GONE, DEADLINE, DutyTurns, MachineChoice


class MachineQueue:
    """The waiting requests of a machine's sessions, ordered by deadline, with a plan that can be exchanged.

    It reads no clock and starts nothing: its owner says what time it is, runs the batches, and sends the answers. Every request that was
    added comes out once: in a batch, or as given up.
    """

    def __init__(self, plan: MachinePlan, turns: DutyTurns) -> None:
        self.plan = plan
        self.turns = turns
        self._queues: dict[str, list[InferenceRequest]] = {slot.session: [] for slot in plan.slots}
        self._waiting: set[int] = set()
        self._gone: set[int] = set()
        self._turn = 0

    def add(self, request: InferenceRequest) -> None:
        """A request joins the queue of its session."""
        self._waiting.add(request.number)
        insort(self._queues.setdefault(request.session, []), request, key=lambda each: each.order)

    def leave(self, number: int) -> None:
        """The client of that request has gone; one that does not wait any more is left as it is."""
        if number in self._waiting:
            self._gone.add(number)

    def install(self, plan: MachinePlan) -> tuple[InferenceRequest, ...]:
        """Follow another plan from now on; the requests of sessions that it does not have are returned, to be routed again."""
        self.plan = plan
        known = {slot.session for slot in plan.slots}
        homeless = [request for session, queue in self._queues.items() if session not in known for request in queue]
        self._queues = {session: self._queues.get(session, []) for session in sorted(known)}
        self._turn = 0
        self._forget(homeless)
        return tuple(sorted(homeless, key=lambda each: each.order))

    def choose(self, now: float) -> MachineChoice:
        """The batch that starts at `now` on the free machine; its requests and those that are given up have left the queue."""
        chosen = self.turns.choose(self._queues, now, self.plan, self._turn, self._gone)
        self._turn = chosen.turn
        self._remove([*chosen.batch, *(request for request, _ in chosen.drops)])
        return chosen

    def expired(self, now: float) -> tuple[tuple[InferenceRequest, str], ...]:
        """The requests that are given up at `now` while the machine is not free, with their reasons."""
        given_up = self.turns.expired(self._queues, now, self.plan)
        answers = tuple((request, CLIENT_GONE if request.number in self._gone else DEADLINE) for request in given_up)
        self._remove(given_up)
        return answers

    def drop_time(self) -> float:
        """The next moment at which `expired` gives a request up; infinite where there is none."""
        return self.turns.drop_time(self._queues, self.plan) if self.plan.slots else math.inf

    def clear(self) -> tuple[InferenceRequest, ...]:
        """All waiting requests, which leave: the machine ends or is lost."""
        waiting = tuple(request for queue in self._queues.values() for request in queue)
        for queue in self._queues.values():
            queue.clear()
        self._forget(waiting)
        return waiting

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def waiting(self, session: str) -> int:
        """The number of waiting requests of a session."""
        return len(self._queues.get(session, ()))

    def seconds(self) -> float:
        """The seconds that what waits would take, in batches as planned."""
        return sum(_seconds(slot, len(self._queues.get(slot.session, ()))) for slot in self.plan.slots)

    def _forget(self, requests: Iterable[InferenceRequest]) -> None:
        numbers = {request.number for request in requests}
        self._waiting -= numbers
        self._gone -= numbers

    def _remove(self, requests: Sequence[InferenceRequest]) -> None:
        self._forget(requests)
        by_session: dict[str, set[int]] = {}
        for request in requests:
            by_session.setdefault(request.session, set()).add(request.number)
        for session, numbers in by_session.items():
            self._queues[session] = [each for each in self._queues[session] if each.number not in numbers]


def _seconds(slot: DutySlot, waiting: int) -> float:
    whole, rest = divmod(waiting, slot.batch)
    return whole * slot.seconds + (slot.profile.latency(rest) if rest else 0.0)
