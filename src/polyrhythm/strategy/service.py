"""A server's whole life: what the topology has it do, once for each model that the workers attach."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.checkpoints.plan import CheckpointPlan, ServerFiles
from polyrhythm.kernel.events import Recorder
from polyrhythm.kernel.message import ASIDE, Message
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.snapshots import Snapshots
from polyrhythm.pieces.topology import ServerEndpoint
from polyrhythm.strategy.losses import Losses
from polyrhythm.strategy.snapshots import new_snapshots, show
from polyrhythm.strategy.strategy_plan import StrategyPlan
from polyrhythm.topology.losses import GONE

_ATTACH, _SERVED, _EVALUATE = "attach", "served", ASIDE + "evaluate"


async def announce(port: Port, scope: str, servers: Sequence[str]) -> None:
    """Announce another part to `servers`, whose topics begin with `scope`; worker 0 does so before it establishes the part."""
    for name in servers:
        await port.send(name, Message(_ATTACH, text=scope))


async def dismiss(port: Port, servers: Sequence[str]) -> None:
    """Dismiss `servers` for which the first model has no parameters; called by worker 0 when no other model can be attached any more."""
    for name in servers:
        await port.send(name, Message(_SERVED))


async def request_snapshots(port: Port, servers: Sequence[str]) -> None:
    """Have `servers` keep snapshots from now on; called by worker 0."""
    for name in servers:
        await port.send(name, Message(_EVALUATE))


class Service:
    """Serves the first model from the beginning, and each that is announced, side by side; ends when all are done with."""

    def __init__(self, plan: StrategyPlan, port: Port, record: Recorder, checkpoints: CheckpointPlan) -> None:
        self.planned = plan.served_by(port.name)
        self.always_used = len(plan.exchanges) == 1
        self.group = plan.group(plan.members[0])
        self.port = port
        self.record = record
        self.checkpoints = checkpoints
        self.losses = Losses(port)
        self.beside = 0
        self.snapshots: list[Snapshots] = []
        self.wanted = False

    async def live(self) -> None:
        """Until all models are done with."""
        await self.losses.begin()
        await self.port.spawn("attachments", self._listen())
        await self.port.spawn("evaluation", self._listen_for_evaluation())
        if self.always_used:
            await self._serve(self.planned.scope(0, 0))
        else:  # selections may leave nothing of the first model to this exchange
            self.beside += 1
            await self.port.spawn("model", self._beside(self.planned.scope(0, 0)))
        while self.beside:  # announced before the workers could be done with the first
            await self.port.receive(_SERVED)
            self.beside -= 1

    async def _listen(self) -> None:
        while True:
            delivery = await self.port.receive(_ATTACH)
            assert delivery is not None
            self.beside += 1
            await self.port.spawn(f"model {delivery.message.text}", self._beside(delivery.message.text))

    async def _listen_for_evaluation(self) -> None:
        await self.port.receive(_EVALUATE)
        self.wanted = True
        for snapshots in self.snapshots:
            snapshots.wanted = True

    async def _beside(self, scope: str) -> None:
        await self._serve(scope)
        await self.port.send(self.port.name, Message(_SERVED))

    async def _serve(self, scope: str) -> None:
        snapshots = new_snapshots(len(self.planned.plan.result_actors()))
        snapshots.wanted = self.wanted
        self.snapshots.append(snapshots)
        for nested in self.planned.plan.scopes:
            await self.losses.subscribe(scope + nested + GONE)
        files = ServerFiles(self.checkpoints, self.port.name, scope)
        await self.planned.plan.serve(
            ServerEndpoint(self.group, self.group.members, self.port.scoped(scope), self.record, snapshots, files)
        )
        if snapshots.wanted:
            await show(self.port, scope, snapshots)
