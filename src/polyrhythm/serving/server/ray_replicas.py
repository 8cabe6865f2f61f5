"""The replicas of a site on Ray Serve: one deployment for each machine, and one that is the gateway. Only Ray's public API is used."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import msgspec

from polyrhythm.core.extras import needed
from polyrhythm.errors import CompositionError
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.server.answers import ServerOutcome, kind_of, status_of
from polyrhythm.serving.server.gateway import Gateway, GatewayRules
from polyrhythm.serving.server.model_host import ModelHost
from polyrhythm.serving.server.served_model import InputForm
from polyrhythm.serving.server.wire import read_input, write_answer
from polyrhythm.serving.serving_plan import MachinePlan, ServingPlan
from polyrhythm.serving.sessions import ServingMachine, ServingSession
from polyrhythm.serving.turns import DutyTurns

_BOUNDS = [0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.35, 0.5, 0.75, 1.0, 2.0, 5.0]
_READY = 1.0
"""Seconds in which a machine must answer for the site to be ready."""


@dataclass(frozen=True, slots=True)
class ReplicaSign:
    """The answer of a replica to the control loop: its process, the plan that it follows, and counts since the last call.

    `outcomes` are pairs of a session and a word, each with its count, since the replica began.
    """

    pid: int
    plan: MachinePlan | ServingPlan | None
    waiting: int = 0
    arrived: Mapping[str, int] | None = None
    dropped: Mapping[str, int] | None = None
    outcomes: Mapping[tuple[str, str], int] | None = None


class RayMachine:
    """The replica of a machine. Ray Serve calls `reconfigure` at its start; the control loop calls it with each new plan."""

    def __init__(self, machine: ServingMachine, models: bytes, turns: DutyTurns) -> None:
        # pickled by cloudpickle, which takes the functions of a MODELS file along: Ray's own copy of it does not know that file
        self._host = ModelHost(machine, cloudpickle.loads(models), turns)
        gauge = needed("ray.util.metrics", "serve").Gauge
        self._waiting = gauge("polyrhythm_serving_waiting", "Requests that wait at a machine.", ("machine",))

    async def reconfigure(self, plan: Mapping[str, Any]) -> None:
        """Load what the plan has, and follow it; it comes as JSON, as all that Ray Serve keeps for a deployment."""
        await self._host.install(msgspec.convert(plan, MachinePlan))

    async def answer(self, session: str, payload: Any, patience: float) -> tuple[ServerOutcome, float]:
        """The outcome of a request, and the moment of the decision about it in seconds since 1970, for clocks of other hosts."""
        answer = await self._host.answer(session, payload, patience)
        return answer, time.time() - (asyncio.get_running_loop().time() - answer.finished)

    async def sign(self) -> ReplicaSign:
        """A sign of life."""
        self._waiting.set(self._host.waiting, {"machine": self._host.machine.name})
        return ReplicaSign(os.getpid(), self._host.plan, self._host.waiting)

    async def drain(self) -> None:
        """End when all that was taken is answered."""
        await self._host.drain()


class RayGateway:
    """The replica that HTTP requests come to: `POST /v2/models/SESSION/infer`, `GET /v2/health/ready`, and `GET /v2/models`.

    Ray Serve gives it the handles of the machines' deployments.
    """

    def __init__(
        self, sessions: Sequence[ServingSession], members: FamilyMembers, forms: Mapping[str, InputForm], rules: GatewayRules, machines: Any
    ) -> None:
        self._forms = forms
        self._machines = machines
        self._gateway = Gateway(sessions, self._send, rules, members)
        self._plan: ServingPlan | None = None
        self._outcomes: Counter[tuple[str, str]] = Counter()
        metrics = needed("ray.util.metrics", "serve")
        self._count = metrics.Counter("polyrhythm_serving_requests", "Requests by outcome.", ("session", "outcome"))
        self._seconds = metrics.Histogram("polyrhythm_serving_seconds", "Seconds in the gateway.", _BOUNDS, ("session", "outcome"))
        self._response = needed("starlette.responses", "serve").Response

    async def reconfigure(self, plan: Mapping[str, Any]) -> None:
        """Route by another plan."""
        self._plan = msgspec.convert(plan, ServingPlan)
        self._gateway.follow(self._plan)

    async def sign(self) -> ReplicaSign:
        """A sign of life, with what came since the last one."""
        beacon = self._gateway.beacon(asyncio.get_running_loop().time())
        return ReplicaSign(os.getpid(), self._plan, 0, beacon.arrived, beacon.dropped, dict(self._outcomes))

    async def drain(self) -> None:
        """End when all that was taken is answered; what comes now is refused."""
        await self._gateway.drain()

    async def __call__(self, request: Any) -> Any:
        """Answer an HTTP request."""
        parts = request.url.path.strip("/").split("/")
        if request.method == "POST" and len(parts) == 4 and parts[:2] == ["v2", "models"] and parts[3] == "infer":
            return await self._infer(parts[2], request)
        if parts[-2:] == ["health", "ready"]:
            return self._response(status_code=200 if await self._ready() else 503)
        if parts == ["v2", "models"]:
            return self._response("\n".join(sorted(self._forms)) + "\n", media_type="text/plain")
        return self._response(f"There is no {request.method} {request.url.path}: POST to /v2/models/SESSION/infer.\n", status_code=404)

    async def _ready(self) -> bool:
        """True if requests are taken, and all machines of the plan answer."""
        if self._gateway.is_ending:
            return False
        machines = [] if self._plan is None else [self._machines[each.machine.name] for each in self._plan.machines]
        signs = (asyncio.wait_for(_sign(each), _READY) for each in machines)
        found = await asyncio.gather(*signs, return_exceptions=True)
        return self._plan is not None and not any(isinstance(each, BaseException) for each in found)

    async def _infer(self, session: str, request: Any) -> Any:
        began = asyncio.get_running_loop().time()
        kind = request.headers.get("content-type", "application/json")
        given = request.headers.get("x-deadline-ms")
        try:
            if session not in self._forms:
                raise CompositionError(f"There is no session {session!r} here: name one of {', '.join(sorted(self._forms))}.")
            patience = None if given is None else _seconds_of(given)
            payload = read_input(await request.body(), kind, self._forms[session])
        except CompositionError as problem:
            return self._response(f"{problem}\n", status_code=400, headers={"X-Outcome": "refused"})
        outcome = "client gone"
        try:
            answer = await self._gateway.answer(session, payload, patience)
            answer, body, own = write_answer(answer, kind, session)
            outcome = kind_of(answer)
        finally:
            self._outcomes[session, outcome] += 1
            tags = {"session": session, "outcome": outcome}
            self._count.inc(1, tags)
            self._seconds.observe(max(1e-6, asyncio.get_running_loop().time() - began), tags)
        status, headers = status_of(answer)
        decided = time.time() - (asyncio.get_running_loop().time() - answer.finished)
        return self._response(body, status_code=status, headers={**headers, "X-Decided": f"{decided:.6f}", **own})

    async def _send(self, machine: str, session: str, payload: Any, patience: float) -> ServerOutcome:
        exceptions = needed("ray.exceptions", "serve")
        unavailable = needed("ray.serve.exceptions", "serve").DeploymentUnavailableError
        response = self._machines[machine].answer.remote(session, payload, patience)
        try:
            answered: tuple[ServerOutcome, float] = await response
        except (exceptions.RayActorError, unavailable) as problem:
            raise ConnectionError(f"{machine} is lost") from problem
        except asyncio.CancelledError:
            response.cancel()
            raise
        answer, decided = answered
        return replace(answer, finished=asyncio.get_running_loop().time() - max(0.0, time.time() - decided))


async def _sign(machine: Any) -> ReplicaSign:
    return await machine.sign.remote()  # type: ignore[no-any-return]


def _seconds_of(given: str) -> float:
    try:
        seconds = float(given) / 1e3
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise CompositionError(f"X-Deadline-Ms: {given} is no time: give the milliseconds from now in which the answer is of use.")
    return seconds
