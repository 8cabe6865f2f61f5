"""A site in virtual time: requests come, batches run, plans change, machines are lost; one event after the other, from a heap."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from polyrhythm.core.streams import stream
from polyrhythm.serving.control import Beacon, ControlState, Replan, control
from polyrhythm.serving.planning import plan
from polyrhythm.serving.requests import Dropped, InferenceRequest, Overdue, Rejected, ServingOutcome
from polyrhythm.serving.serving_plan import MachinePlan, ServingPlan, difference
from polyrhythm.serving.simulation.request_entrance import RequestEntrance
from polyrhythm.serving.simulation.settings import OfferedLoad, SimulatedSite
from polyrhythm.serving.simulation.virtual_machine import VirtualServer, paced
from polyrhythm.serving.transition import held_meanwhile, interim, loading_times, partly_loaded


class ServingWorld:
    """The state of a simulated site. `run` plays the load to its end; then every request has exactly one outcome."""

    def __init__(self, site: SimulatedSite, first: ServingPlan, load: OfferedLoad) -> None:
        self.now = 0.0
        self.outcomes: dict[int, tuple[InferenceRequest, ServingOutcome]] = {}
        self.plans: list[tuple[float, str, ServingPlan]] = [(0.0, "first", first)]
        self.most_bytes: dict[str, int] = {}
        self._site, self._load = site, load
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = self._number = self._version = 0
        self._pace = paced(site.spread, stream(load.seed, "serving", "pace"))
        empty = [MachinePlan(machine, 1.0, ()) for machine in site.machines]
        self.servers = {each.machine.name: VirtualServer(each, site.turns, self._at, self._answer) for each in empty}
        self._entrance = RequestEntrance(site.router, site.admission, stream(load.seed, "serving", "routes"))
        self._slo = {one.name: one.slo for one in site.members.asked(site.sessions)}
        self._families = site.members.families()
        self._arrived: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._control = ControlState.begin({one.name: one.rate for one in site.sessions}, [each.name for each in site.machines])
        self._ready_at = self._entrance_free = 0.0
        self._active = self._latest = first

    def run(self) -> None:
        """Play the whole load."""
        self._hold(self._active, self._active)
        self._install(self._active)
        arrivals = [
            (moment, session)
            for session, process in sorted(self._load.arrivals.items())
            for moment in process.times(self._load.seconds, stream(self._load.seed, "serving", "arrivals", session))
        ]
        for moment, session in sorted(arrivals):
            self._at(moment, lambda session=session: self._arrive(session))  # type: ignore[misc]
        for machine, moment in self._site.losses.items():
            self._at(moment, self.servers[machine].lose)
        if self._site.control is not None:
            self._at(self._site.control.beacon, self._beacons)
        while self._heap:
            self.now, _, event = heapq.heappop(self._heap)
            event()
        for server in self.servers.values():
            server.stranded(self.now)

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (moment, self._counter, event))
        self._counter += 1

    def _answer(self, request: InferenceRequest, outcome: ServingOutcome) -> None:
        if request.number in self.outcomes:
            raise AssertionError(f"request {request.number} is answered twice")
        self.outcomes[request.number] = (request, outcome)
        if isinstance(outcome, Dropped | Overdue):
            self._dropped[request.session] += 1

    def _arrive(self, session: str) -> None:
        family = self._families.get(session)
        deadline = self.now + self._slo[session]
        request = InferenceRequest(self._number, family or session, self.now, deadline, member=session if family else "")
        self._number += 1
        self._arrived[request.session] += 1
        wait = self._entrance.admit(session, self.now)
        if wait > 0:
            self._answer(request, Rejected(self.now, wait))
            return
        if self._site.rules.entrance == 0:
            self._route(request)
            return
        self._entrance_free = max(self._entrance_free, self.now) + self._site.rules.entrance
        self._at(self._entrance_free, lambda: self._route(request))

    def _route(self, request: InferenceRequest) -> None:
        server = self._entrance.route(request, self.servers, self.now)
        if server is None:
            self._answer(request, Rejected(self.now, max(0.0, self._ready_at - self.now)))
            return
        slot = server.queue.plan.slot(request.session)
        # what was waited for at the entrance is a part of what is left to the network
        way = max(0.0, self._site.rules.network - (self.now - request.arrival))
        before = way + (slot.profile.before if slot is not None else 0.0)
        if before == 0:
            server.add(request, self.now, self._pace)
        else:
            self._at(self.now + before, lambda: server.add(request, self.now, self._pace))

    def _install(self, made: ServingPlan) -> None:
        """Follow a plan from now on; requests that wait where their session is served no more are routed again."""
        self._active = made
        self._entrance.follow(made, self._site.members.admitted(made), self.now)
        homeless: list[InferenceRequest] = []
        for name, server in self.servers.items():
            homeless += server.queue.install(made.on(name) or MachinePlan(server.queue.plan.machine, 1.0, ()))
        for request in sorted(homeless, key=lambda each: each.order):
            self._route(request)
        for server in self.servers.values():
            server.decide(self.now, self._pace)

    def _beacons(self) -> None:
        rules = self._site.control
        if rules is None:
            return
        beacons = [Beacon("entrance", self.now, dict(self._arrived), dict(self._dropped))]
        beacons += [Beacon(name, self.now) for name, server in self.servers.items() if server.alive]
        self._arrived.clear()
        self._dropped.clear()
        dead = self._control.dead
        self._control, due = control(self._control, self.now, beacons, rules)
        for name in sorted(self._control.dead - dead):
            self.servers[name].stranded(self.now)
        if due is not None:
            self._replan(due)
        if self.now < self._load.seconds:
            self._at(self.now + rules.beacon, self._beacons)

    def _replan(self, due: Replan) -> None:
        """Plan anew; the old plan serves, as far as memory and machines allow it, until all models of the new one are loaded."""
        sessions = [replace(one, rate=due.rates[one.name]) for one in self._site.sessions]
        present = [each for each in self._site.machines if each.name not in due.dead]
        made, diff = plan(sessions, present, self._site.profiles, self._latest, self._site.rules)
        if diff.empty and not due.dead:
            return
        self._latest = made
        self.plans.append((self.now, due.reason, made))
        meanwhile = interim(self._active, made, due.dead)
        self._hold(meanwhile, made)
        self._version += 1
        version = self._version
        times = loading_times(difference(meanwhile, made), made)
        self._ready_at = self.now + max(times.values(), default=0.0)
        for seconds in sorted({0.0, *times.values()}):
            missing = [model for model, needed in times.items() if needed > seconds]
            self._at(self.now + seconds, partial(self._stage, version, partly_loaded(meanwhile, made, missing)))

    def _stage(self, version: int, made: ServingPlan) -> None:
        """Follow a plan, unless another has been made since."""
        if version == self._version:
            self._install(made)

    def _hold(self, before: ServingPlan, after: ServingPlan) -> None:
        for name, nbytes in held_meanwhile(before, after).items():
            self.most_bytes[name] = max(self.most_bytes.get(name, 0), nbytes)
