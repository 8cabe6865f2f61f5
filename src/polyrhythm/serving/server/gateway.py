"""The gateway of a site: admission by session, the choice of a machine, and exactly one outcome for each request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyrhythm.serving.control import Beacon
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.requests import Dropped, Ok, Rejected
from polyrhythm.serving.routing import RequestRouter, SmoothWeighted
from polyrhythm.serving.server.answers import LOST, MOVED, SHUTDOWN, Failed, ServerOutcome, failure
from polyrhythm.serving.server.machine_view import MachineView
from polyrhythm.serving.server.variant_input import VariantInput
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.session_buckets import SessionBuckets
from polyrhythm.serving.sessions import ServingSession
from polyrhythm.serving.token_bucket import AdmissionRule, AdmitPlanned
from polyrhythm.serving.turns import CLIENT_GONE

Send = Callable[[str, str, Any, float], Awaitable[ServerOutcome]]
"""Have a machine answer a payload of a session within so many seconds. Raises ConnectionError where it does not answer.

What else it raises fails the request."""
ENTRANCE = "gateway"
_GRACE = 1.0
_PAUSE = 3.0
"""Seconds for which nothing is sent to a machine that a call has found dead; a restarted one has not loaded sooner."""
_TRIES = 3
_NONE = FamilyMembers()


@dataclass(frozen=True, slots=True)
class GatewayRules:
    """The pieces that decide at the gateway, and the `seed` of their draws.

    `network` is the seconds of a deadline that the way to the gateway and back takes: what a machine must keep is that much less.
    """

    router: RequestRouter = field(default_factory=SmoothWeighted)
    admission: AdmissionRule = field(default_factory=AdmitPlanned)
    network: float = 0.0
    seed: int = 0


class Gateway:
    """The only way in: buckets, credits and counts are exact, since nobody else gives requests to the machines.

    `sessions` are those that are planned; clients name `members` in place of a family, each of which has a bucket of its own. Call
    everything in one event loop.
    """

    def __init__(self, sessions: Sequence[ServingSession], send: Send, rules: GatewayRules, members: FamilyMembers = _NONE) -> None:
        self.sessions = {one.name: one for one in members.asked(sessions)}
        self._members, self._families, self._variants = members, members.families(), members.variants()
        self._send, self._rules = send, rules
        self._draws = np.random.default_rng(rules.seed)
        self._routes: Mapping[str, tuple[tuple[str, float], ...]] = {}
        self._views: dict[str, MachineView] = {}
        self._buckets = SessionBuckets(rules.admission)
        self._credits: dict[str, Mapping[str, float]] = {}
        self._arrived: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._inside = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = False

    @property
    def is_ending(self) -> bool:
        """True from `drain` on: nothing is taken any more."""
        return self._ending

    def follow(self, plan: ServingPlan) -> None:
        """Use the routes of another plan. A bucket keeps its tokens as far as the new one holds them; lost machines are tried again."""
        self._routes = plan.routes
        for each in plan.machines:
            self._views.setdefault(each.machine.name, MachineView())
        for name, view in self._views.items():
            view.plan, view.lost_until = plan.on(name), 0.0
        self._buckets.follow(self._members.admitted(plan), self._now())

    async def answer(self, session: str, payload: Any, patience: float | None = None) -> ServerOutcome:
        """Wait for the outcome of a request; `patience` is the seconds until its deadline, the objective of its session by default."""
        now = self._now()
        if session not in self.sessions:
            return Failed(now, f"There is no session {session!r} here: name one of {', '.join(sorted(self.sessions))}.", theirs=True)
        if self._ending:
            return Dropped(now, SHUTDOWN)
        planned = self._families.get(session, session)
        self._arrived[planned] += 1
        deadline = now + (self.sessions[session].slo if patience is None else patience) - self._rules.network
        self._inside += 1
        self._idle.clear()
        try:
            wait = self._buckets.admit(session, now)
            outcome = Rejected(now, wait) if wait > 0 else await self._routed(planned, self._input(session, payload), deadline)
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()
        if not isinstance(outcome, Ok | Rejected) and not (isinstance(outcome, Dropped) and outcome.reason == CLIENT_GONE):
            self._dropped[planned] += 1
        return outcome

    def beacon(self, now: float) -> Beacon:
        """The requests of each session that came, and that were dropped or late, since the last call."""
        made = Beacon(ENTRANCE, now, dict(self._arrived), dict(self._dropped))
        self._arrived.clear()
        self._dropped.clear()
        return made

    async def drain(self) -> None:
        """Take no more requests, and wait until those that were taken are answered."""
        self._ending = True
        await self._idle.wait()

    def _input(self, session: str, payload: Any) -> Any:
        """The payload as its machine wants it: with the name of the variant for a family."""
        return VariantInput(self._variants[session], payload) if session in self._variants else payload

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _routed(self, session: str, payload: Any, deadline: float) -> ServerOutcome:
        """The answer of a machine; one that is lost, or has another plan by now, is replaced by another while there is time."""
        outcome: ServerOutcome = Dropped(self._now(), LOST)
        for _ in range(_TRIES):
            machine = self._chosen(session, deadline - self._now())
            if machine is None:
                return outcome
            outcome = await self._asked(machine, session, payload, deadline)
            if not isinstance(outcome, Dropped) or outcome.reason not in (LOST, MOVED):
                return outcome
            if self._now() >= deadline:
                return outcome
        return outcome

    def _chosen(self, session: str, patience: float) -> str | None:
        now = self._now()
        found = [self._views[machine].destination(session, weight, now) for machine, weight in self._routes.get(session, ())]
        destinations = [each for each in found if each is not None]
        if not destinations:
            return None
        routed = self._rules.router.route(destinations, self._credits.get(session, {}), patience, self._draws)
        self._credits[session] = routed.credits
        return destinations[routed.index].machine

    async def _asked(self, machine: str, session: str, payload: Any, deadline: float) -> ServerOutcome:
        view = self._views[machine]
        view.give(session)
        patience = deadline - self._now()
        try:
            return await asyncio.wait_for(self._send(machine, session, payload, patience), max(0.0, patience) + _GRACE)
        except TimeoutError:  # it may only be slow: silence is for the control loop to judge
            return Dropped(self._now(), LOST)
        except ConnectionError:
            view.lost_until = self._now() + _PAUSE
            return Dropped(self._now(), LOST)
        except Exception as problem:  # the engine below may raise anything: whatever it is, the request has an outcome and is counted
            return failure(self._now(), problem)
        finally:
            view.take(session)
