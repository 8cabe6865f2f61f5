"""A gateway and its machines in one event loop in virtual time: the server without Ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from polyrhythm.serving import DutySlot, DutyTurns, EarlyDrop, MachinePlan, ServingMachine, ServingPlan, ServingSession
from polyrhythm.serving.control import Beacon
from polyrhythm.serving.server.answers import ServerOutcome
from polyrhythm.serving.server.batch_loop import BatchLoop
from polyrhythm.serving.server.changing_plans import empty
from polyrhythm.serving.server.gateway import Gateway, GatewayRules


class VirtualServer:
    """Machines that take the time of their profiles, and can be lost: `events` is the order of what they and the gateway were told."""

    def __init__(self, machines: Sequence[ServingMachine], sessions: Sequence[ServingSession], rules: GatewayRules) -> None:
        self.loops = {each.name: BatchLoop(empty(each), DutyTurns(EarlyDrop()), self._run) for each in machines}
        self.gateway = Gateway(sessions, self._send, rules)
        self.dead: set[str] = set()
        self.sent: Counter[str] = Counter()
        self.events: list[tuple[str, Any]] = []

    def begin(self, plan: ServingPlan) -> None:
        self.install({each.machine.name: each for each in plan.machines})
        self.follow(plan)

    async def _run(self, slot: DutySlot, payloads: Sequence[Any]) -> Sequence[Any]:
        await asyncio.sleep(slot.profile.latency(len(payloads)))
        return payloads

    async def _send(self, machine: str, session: str, payload: Any, patience: float) -> ServerOutcome:
        self.sent[machine] += 1
        asked = asyncio.ensure_future(self.loops[machine].answer(session, payload, patience))
        while not asked.done():
            if machine in self.dead:
                raise ConnectionError
            await asyncio.wait([asked], timeout=0.01)
        return asked.result()

    def beacons(self) -> Sequence[Beacon]:
        now = asyncio.get_running_loop().time()
        return [self.gateway.beacon(now), *(Beacon(name, now) for name in self.loops if name not in self.dead)]

    def follow(self, plan: ServingPlan) -> Sequence[str]:
        self.events.append(("gateway", plan))
        self.gateway.follow(plan)
        return []

    def install(self, plans: Mapping[str, MachinePlan]) -> Sequence[str]:
        for name, plan in plans.items():
            self.events.append((name, plan))
            self.loops[name].install(plan)
        return [f"{name} is lost" for name in plans if name in self.dead]
