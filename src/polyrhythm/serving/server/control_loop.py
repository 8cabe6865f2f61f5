"""The control loop of a running site: beacons in, plans out, in the process that started the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from polyrhythm.serving.control import Beacon, ControlRules, ControlState, Replan, control
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.planning import plan
from polyrhythm.serving.server.changing_plans import RunningSite, change
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession


@dataclass(frozen=True, slots=True)
class ServedSite:
    """Sessions, machines and profiles as `plan` takes them, and the rules of planning and of control.

    `members` are the sessions that clients name where a family is planned as one.
    """

    sessions: tuple[ServingSession, ...]
    machines: tuple[ServingMachine, ...]
    profiles: tuple[LatencyProfile, ...]
    rules: PlanningRules = field(default_factory=PlanningRules)
    control: ControlRules = field(default_factory=ControlRules)
    members: FamilyMembers = field(default_factory=FamilyMembers)

    def plan(self, rates: Mapping[str, float], dead: frozenset[str], previous: ServingPlan | None) -> ServingPlan:
        """The plan for those rates on the machines that live; a session keeps room for its own rate, also while nobody asks."""
        sessions = [replace(one, rate=max(one.rate, rates.get(one.name, 0.0))) for one in self.sessions]
        present = [each for each in self.machines if each.name not in dead]
        return plan(sessions, present, self.profiles, previous, self.rules)[0]


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of plans from `begun` to `ended`, why, the plan that serves since, and what went wrong meanwhile.

    `installed` is False where a machine could not load what was planned: `plan` is then the one before, without lost machines.
    """

    begun: float
    ended: float
    reason: str
    plan: ServingPlan
    problems: tuple[str, ...] = ()
    installed: bool = True


class ServingControl:
    """Each `turn` gathers beacons and decides; a due plan is installed by a thread, so that beacons are heard while models load.

    A plan that a machine could not load is made anew `shortest` seconds later, unless another is due before.
    """

    def __init__(self, site: RunningSite, served: ServedSite, first: ServingPlan, clock: Callable[[], float]) -> None:
        self._site, self._served, self._clock = site, served, clock
        now = clock()
        self._state = ControlState.begin({one.name: one.rate for one in served.sessions}, [each.name for each in served.machines], now)
        self._active = first
        self._due: Replan | None = None
        self._again: tuple[float, str] | None = None
        self._asked = now
        self._worker = ThreadPoolExecutor(1, "plans")
        self._work: Future[PlanChange] | None = None
        self.changes: list[PlanChange] = []

    @property
    def state(self) -> ControlState:
        """What the loop knows of rates and machines."""
        return self._state

    @property
    def beacon(self) -> float:
        """The seconds from one turn to the next."""
        return self._served.control.beacon

    @property
    def active(self) -> ServingPlan:
        """The plan that is installed, or the one before while another is being installed."""
        return self._active

    def turn(self) -> None:
        """One beacon interval's end."""
        beacons = self._site.beacons()
        now = self._clock()
        self._state, due = control(self._state, now, self._even(beacons, now), self._served.control)
        self._due = due or self._due
        if self._work is not None and self._work.done():
            self.settle()
        if self._again is not None and now >= self._again[0]:
            rates = {name: each.planned for name, each in self._state.estimates.items()}
            self._due = self._due or Replan(self._again[1], rates, self._state.dead)
            self._again = None
        if self._work is None and self._due is not None:
            self._begin(self._due)
            self._due = None

    def settle(self) -> None:
        """Wait for a plan that is being installed."""
        if self._work is not None:
            ended = self._work.result()
            self.changes.append(ended)
            self._active, self._work = ended.plan, None
            if not ended.installed:
                self._again = ended.ended + self._served.control.shortest, ended.reason

    def close(self) -> None:
        """Wait likewise, and end the thread."""
        self.settle()
        self._worker.shutdown(wait=True)

    def _begin(self, due: Replan) -> None:
        self._again = None
        made = self._served.plan(due.rates, due.dead, self._active)
        if made == self._active and due.reason not in ("lost", "back"):
            return
        before = self._active
        self._work = self._worker.submit(self._install, due, before, made)

    def _install(self, due: Replan, before: ServingPlan, made: ServingPlan) -> PlanChange:
        begun = self._clock()
        serves, problems = change(self._site, before, made, due.dead)
        return PlanChange(begun, self._clock(), due.reason, serves, tuple(problems), serves == made)

    def _even(self, beacons: Sequence[Beacon], now: float) -> list[Beacon]:
        """Counts as they would be had the interval had its nominal length: a busy host's timer is late, and rates would seem to rise."""
        scale = self._served.control.beacon / max(1e-3, now - self._asked)
        self._asked = now
        return [replace(each, arrived=_scaled(each.arrived, scale), dropped=_scaled(each.dropped, scale)) for each in beacons]


def _scaled(counts: Mapping[str, int], scale: float) -> dict[str, int]:
    return {name: round(count * scale) for name, count in counts.items()}
