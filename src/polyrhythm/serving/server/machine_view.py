"""A machine as the gateway knows it: what it has given it, and has no answer to yet."""

from __future__ import annotations

from collections import Counter

from polyrhythm.serving.routing import Destination
from polyrhythm.serving.serving_plan import MachinePlan


class MachineView:
    """The plan of a machine and its unanswered requests, by session; no routes lead to it before `lost_until`."""

    def __init__(self) -> None:
        self.plan: MachinePlan | None = None
        self.lost_until = 0.0
        self._given: Counter[str] = Counter()

    def give(self, session: str) -> None:
        """A request goes to the machine."""
        self._given[session] += 1

    def take(self, session: str) -> None:
        """A request is answered, or nobody waits for its answer any more."""
        self._given[session] -= 1

    @property
    def seconds(self) -> float:
        """The seconds that all that was given takes, in batches as planned: at most one batch too much, as part of one is done."""
        total = 0.0
        for slot in () if self.plan is None else self.plan.slots:
            whole, rest = divmod(self._given[slot.session], slot.batch)
            total += whole * slot.seconds + (slot.profile.latency(rest) if rest else 0.0)
        return total

    def destination(self, session: str, weight: float, now: float) -> Destination | None:
        """The machine as a router sees it; None where it does not serve the session, or is lost."""
        slot = None if now < self.lost_until or self.plan is None else self.plan.slot(session)
        if self.plan is None or slot is None:
            return None
        given = sum(self._given.values())
        return Destination(self.plan.machine.name, weight, given, self.seconds, slot.seconds, slot.seconds / slot.batch)
