"""The next batch of a machine that several sessions share: they take turns by the duty cycle of its plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from polyrhythm.serving.batcher import BatchChoice, Batcher
from polyrhythm.serving.early_drop import EarlyDrop
from polyrhythm.serving.requests import InferenceRequest
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan

Queues = Mapping[str, Sequence[InferenceRequest]]
"""The waiting requests of each session, ordered by deadline."""

CLIENT_GONE, DEADLINE = "client gone", "deadline"
_JUST_AFTER = 1e-9


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """A decision of a free machine: the slot and its `batch` that start now, requests that are given up, each with its reason, and a turn.

    `slot` is None where nothing starts; `wake` is when to decide again, if no request comes before. `turn` is the argument of the next
    decision.
    """

    slot: DutySlot | None
    batch: tuple[InferenceRequest, ...]
    drops: tuple[tuple[InferenceRequest, str], ...]
    turn: int
    wake: float | None = None


@dataclass(frozen=True, slots=True)
class DutyTurns:
    """Round-robin over the slots of a machine's plan; a turn for which nothing waits goes to the most urgent of the others.

    Every batch is at most that of its slot, so that a session waits at most for one batch of each other: that is the promise of the
    plan. A request whose time is over is not urgent: it has no priority at all. Requests of clients that have gone are left out first.
    """

    batcher: Batcher = field(default_factory=EarlyDrop)

    def choose(self, queues: Queues, now: float, plan: MachinePlan, turn: int, gone: Collection[int] = ()) -> MachineChoice:
        """The batch that starts at `now`; `gone` has the numbers of requests whose clients have left."""
        dropped: list[tuple[InferenceRequest, str]] = []
        choices: list[BatchChoice] = []
        for slot in plan.slots:
            queue = queues.get(slot.session, ())
            waiting = [request for request in queue if request.number not in gone] if gone else queue
            if gone:
                dropped.extend((request, CLIENT_GONE) for request in queue if request.number in gone)
            choices.append(self.batcher.choose(waiting, now, slot))
            dropped.extend((request, DEADLINE) for request in choices[-1].drops)
        ready = [index for index, choice in enumerate(choices) if choice.batch]
        if not ready:
            wakes = [choice.wake for choice in choices if choice.wake is not None]
            return MachineChoice(None, (), tuple(dropped), turn, min(wakes, default=None))
        own = turn % len(plan.slots)
        taken = own if own in ready else min(ready, key=lambda index: (_urgency(choices[index], plan.slots[index]), index))
        return MachineChoice(plan.slots[taken], choices[taken].batch, tuple(dropped), (own + 1) % len(plan.slots))

    def drop_time(self, queues: Queues, plan: MachinePlan) -> float:
        """The next moment at which a request of a machine that is not free must be given up; infinite where there is none."""
        return min(self.batcher.drop_time(queues.get(slot.session, ()), slot) for slot in plan.slots) + _JUST_AFTER

    def expired(self, queues: Queues, now: float, plan: MachinePlan) -> tuple[InferenceRequest, ...]:
        """The requests that are given up at `now` on a machine that is not free."""
        return tuple(request for slot in plan.slots for request in self.batcher.expired(queues.get(slot.session, ()), now, slot))


def _urgency(choice: BatchChoice, slot: DutySlot) -> float:
    """The last moment at which the batch can begin."""
    return choice.batch[0].deadline - slot.profile.latency(len(choice.batch)) - slot.profile.after
