"""A plan of which machine serves which sessions, in which batches and how often; and the difference of two plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.sessions import ServingMachine


@dataclass(frozen=True, slots=True)
class DutySlot:
    """A session's turn in the duty cycle of a machine: up to `batch` requests of it at once.

    `rate` is the planned requests per second of the session on this machine, with the headroom. `budget` is the part of the latency
    objective that waiting and computing may take together.
    """

    session: str
    model: str
    rate: float
    batch: int
    budget: float
    profile: LatencyProfile
    deviations: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of its batch."""
        return self.profile.latency(self.batch)

    @property
    def nbytes(self) -> int:
        """The bytes of the model with its batch."""
        return self.profile.nbytes[self.batch - 1]


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The duty cycle of one machine: its slots take turns, and each has one every `duty` seconds at the planned rates."""

    machine: ServingMachine
    duty: float
    slots: tuple[DutySlot, ...]

    @property
    def occupancy(self) -> float:
        """The part of the duty cycle that the slots take."""
        return sum(slot.seconds for slot in self.slots) / self.duty

    @property
    def nbytes(self) -> int:
        """The bytes that its models take together: two sessions of one model hold it once, with the larger batch."""
        largest: dict[str, int] = {}
        for slot in self.slots:
            largest[slot.model] = max(largest.get(slot.model, 0), slot.nbytes)
        return sum(largest.values())

    def slot(self, session: str) -> DutySlot | None:
        """The slot of that session, if the machine has one."""
        return next((slot for slot in self.slots if slot.session == session), None)


@dataclass(frozen=True, slots=True)
class Unserved:
    """A session that the plan does not serve, or not whole: `rate` is what is left over.

    `reason` is a sentence. Where no machine could meet the objective at any rate, `smallest_slo` is the smallest that one could.
    """

    session: str
    rate: float
    reason: str
    smallest_slo: float | None = None


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """The machines that are in use, with their duty cycles, and the sessions that found no place."""

    machines: tuple[MachinePlan, ...]
    unserved: tuple[Unserved, ...] = ()

    @property
    def cost(self) -> float:
        """The cost of the machines in use."""
        return sum(each.machine.cost for each in self.machines)

    @property
    def routes(self) -> Mapping[str, tuple[tuple[str, float], ...]]:
        """For each session the machines that serve it, each with its planned requests per second as a weight."""
        routes: dict[str, list[tuple[str, float]]] = {}
        for each in self.machines:
            for slot in each.slots:
                routes.setdefault(slot.session, []).append((each.machine.name, slot.rate))
        return {session: tuple(pairs) for session, pairs in routes.items()}

    def on(self, machine: str) -> MachinePlan | None:
        """The duty cycle of that machine, if it is in use."""
        return next((each for each in self.machines if each.machine.name == machine), None)

    def capacity(self, session: str) -> float:
        """The requests per second that are planned for a session, with the headroom."""
        return sum(weight for _, weight in self.routes.get(session, ()))

    @property
    def placements(self) -> frozenset[tuple[str, str]]:
        """The pairs of a machine and a model that it holds."""
        return frozenset((each.machine.name, slot.model) for each in self.machines for slot in each.slots)


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """The work of changing from one plan to another: models to load and to unload, and slots whose batch, rate or duty differs.

    Each is a pair of a machine and a model, or of a machine and a session in `changed`. Nothing of `unloads` may be unloaded before what
    `loads` has is ready, or its requests would have no machine.
    """

    loads: tuple[tuple[str, str], ...] = ()
    unloads: tuple[tuple[str, str], ...] = ()
    changed: tuple[tuple[str, str], ...] = ()

    @property
    def empty(self) -> bool:
        """True if the plans are the same."""
        return not (self.loads or self.unloads or self.changed)


@dataclass(frozen=True, slots=True)
class Demand:
    """A session, or a part of it, as one machine must serve it: `rate` requests per second within `budget` seconds each.

    A batch holds what comes in a duty cycle on average, and `deviations` standard deviations of it.
    """

    session: str
    model: str
    rate: float
    budget: float
    profile: LatencyProfile = field(repr=False)
    deviations: float = 0.0


def difference(old: ServingPlan | None, new: ServingPlan) -> PlanDiff:
    """The work of changing from `old`, or from nothing, to `new`."""
    before = frozenset() if old is None else old.placements
    slots = {} if old is None else _slots(old.machines)
    changed = [key for key, value in _slots(new.machines).items() if key in slots and slots[key] != value]
    return PlanDiff(tuple(sorted(new.placements - before)), tuple(sorted(before - new.placements)), tuple(sorted(changed)))


def _slots(machines: Sequence[MachinePlan]) -> dict[tuple[str, str], tuple[float, float, int]]:
    return {(each.machine.name, slot.session): (each.duty, slot.rate, slot.batch) for each in machines for slot in each.slots}
