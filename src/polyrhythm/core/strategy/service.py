"""A server's work in a run: the topology's for each model that the workers attach, and that of whatever else they open.

The runtime starts a `Service` at each server; worker 0 announces models and tables to it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
from torch import Tensor

from polyrhythm.core.checkpoints.plan import CheckpointPlan, ServerFiles, ServerMemory
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import ASIDE, VIEW, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import NextView
from polyrhythm.core.protocols.common_state import Opening
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.strategy.current_view import CurrentView
from polyrhythm.core.strategy.snapshots import new_snapshots, show
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.tables.opening import TableOpening
from polyrhythm.core.whole_batch.batch_opening import BatchOpening

_ATTACH, _OPEN, _SERVED, _NONE, _EVALUATE = "attach", "open", "served", "none", ASIDE + "evaluate"

AnyOpening = TableOpening | BatchOpening
"""The openings that servers know, of state other than models: the union of all structs that are an `Opening`."""


class Serving(NamedTuple):
    """The coroutine of a server at an endpoint, and the prefixes of the topics of its exchanges."""

    live: Callable[[ServerEndpoint], Coroutine[Effect[Any], Any, None]]
    scopes: Sequence[str]


async def announce(port: Port, scope: str, servers: Sequence[str]) -> None:
    """Announce another part to `servers`, with its topics' prefix `scope`; worker 0 does so before it establishes the part."""
    for name in servers:
        await port.send(name, Message(_ATTACH, text=scope))


async def announce_opening(port: Port, opening: Opening, name: str, given: Sequence[Tensor]) -> None:
    """Announce to the server `name` other state that it is to keep, with the initial tensors `given`; called by worker 0 at opening."""
    await port.send(name, Message(_OPEN, text=msgspec.json.encode(opening).decode(), tensors=tuple(given)))


async def dismiss_all(port: Port, servers: Sequence[str]) -> None:
    """Dismiss `servers` that wait for a first model when no model was attached, and none will be; called by worker 0."""
    for name in servers:
        await port.send(name, Message(_NONE))


async def dismiss(port: Port, servers: Sequence[str]) -> None:
    """Dismiss `servers` for which the first model has no parameters; called by worker 0 when no other model can be attached any more."""
    for name in servers:
        await port.send(name, Message(_SERVED))


async def request_snapshots(port: Port, servers: Sequence[str]) -> None:
    """Make `servers` keep snapshots from now on; called by worker 0."""
    for name in servers:
        await port.send(name, Message(_EVALUATE))


class Service:
    """Serves the first model from the start, and each announced one, at the same time; ends when all of them have ended."""

    def __init__(self, plan: StrategyPlan, port: Port, record: Recorder, checkpoints: CheckpointPlan, crew: Crew = FIXED) -> None:
        self.always_used = len(plan.exchanges) == 1
        self.port = port
        self.record = record
        self.checkpoints = checkpoints
        self.crew = crew
        self.memory = ServerMemory()
        self.snapshots: dict[str, Snapshots] = {}
        self.wanted = False
        self._enter(plan)

    def _enter(self, plan: StrategyPlan) -> None:
        """Serve the workers of `plan` from now on."""
        self.plan = plan
        self.view = CurrentView(self.port, plan.mesh, plan.servers, plan.lost)
        self.running = 0
        self.first_is_over = Latch()
        self.next: NextView | None = None
        if self.port.name in plan.idle:
            self.memory.states.clear()
            return
        self.planned = plan.served_by(self.port.name)
        self.model = Serving(self.planned.plan.serve, self.planned.plan.scopes)
        self.group = plan.mesh.world(plan.mesh.first)

    async def live(self) -> None:
        """Serve until all models and tables have ended, in each view of the crew."""
        await self._live_in_view()
        while self.next is not None:
            change, places = self.next.change, [Location(*place) for place in self.next.locations]
            self.memory.change()
            await self.port.enter(change.after.epoch)
            self._enter(self.plan.changed(change.after.members, places, self.view.lost_servers))
            await self._live_in_view()

    async def _follow_crew(self) -> None:
        """Have the service leave this view when the crew changes."""
        delivery = await self.port.notice(VIEW)
        assert delivery is not None
        self.next = msgspec.json.decode(delivery.message.text, type=NextView)
        self.first_is_over.open()
        await self.port.send(self.port.name, Message(_SERVED))

    async def _live_in_view(self) -> None:
        """Serve until all has ended, or the crew changes."""
        if not self.crew.fixed:
            await self.port.spawn("crew", self._follow_crew())
        await self.view.begin()
        if self.port.name in self.plan.idle:
            await self.port.receive(_SERVED)
            return
        await self.port.spawn("attachments", self._listen())
        await self.port.spawn("openings", self._listen_for_openings())
        await self.port.spawn("evaluation", self._listen_for_evaluation())
        if self.always_used:
            await self.port.spawn("dismissal", self._listen_for_dismissal())
            await self.port.spawn("model", self._serve(self.planned.scope(0, 0), self.model, self.first_is_over.open))
            await self.port.wait(self.first_is_over)
        else:  # selections may leave nothing of the first model to this exchange
            self.running += 1
            await self.port.spawn("model", self._serve_counted(self.planned.scope(0, 0), self.model))
        while self.running and self.next is None:  # announced before the workers could be done with the first
            await self.port.receive(_SERVED)
            self.running -= 1

    async def _listen_for_dismissal(self) -> None:
        await self.port.receive(_NONE)
        self.first_is_over.open()

    async def _listen(self) -> None:
        while True:
            delivery = await self.port.receive(_ATTACH)
            assert delivery is not None
            await self._serve_too(delivery.message.text, self.model)

    async def _listen_for_openings(self) -> None:
        while True:
            delivery = await self.port.receive(_OPEN)
            assert delivery is not None
            opening = msgspec.json.decode(delivery.message.text, type=AnyOpening)
            keep = partial(self._keep, opening, delivery.message.tensors)
            await self._serve_too(opening.scope, Serving(keep, [""]))

    def _keep(self, opening: Opening, given: tuple[Tensor, ...], endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        names = self.planned.servers
        group = Group("servers", names, names.index(self.port.name), self.group.seed)
        return opening.serve(self.planned.exchange.agreement.consistency, replace(endpoint, group=group), given)

    async def _listen_for_evaluation(self) -> None:
        await self.port.receive(_EVALUATE)
        self.wanted = True
        for snapshots in self.snapshots.values():
            snapshots.wanted = True

    async def _serve_too(self, scope: str, serving: Serving) -> None:
        self.running += 1
        await self.port.spawn(f"model {scope}", self._serve_counted(scope, serving))

    async def _serve_counted(self, scope: str, serving: Serving) -> None:
        await self._serve(scope, serving)
        await self.port.send(self.port.name, Message(_SERVED))

    async def _serve(self, scope: str, serving: Serving, ended: Callable[[], None] = lambda: None) -> None:
        snapshots = self.snapshots.setdefault(scope, new_snapshots(len(self.planned.plan.result_actors())))
        snapshots.wanted = self.wanted
        for nested in serving.scopes:
            await self.view.subscribe(scope + nested + GONE)
        files = ServerFiles(self.checkpoints, self.port.name, scope, self.memory)
        await serving.live(ServerEndpoint(self.group, self.group.members, self.port.scoped(scope), self.record, snapshots, files))
        if snapshots.wanted:
            await show(self.port, self.group.first, scope, snapshots)
        ended()
