"""A parameter server's shard: merges what workers push, and responds when the consistency lets them continue."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.codec import packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.served_weights import ServedWeights, WeightLog
from polyrhythm.core.protocols.topology import Agreement, ServerEndpoint
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.protocols.upstream import HostedOptimizer
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.remote_optimizer import RemoteOptimizer
from polyrhythm.core.weights.state import ModelState
from polyrhythm.topology.servers.server_clocks import ServerClocks
from polyrhythm.topology.servers.server_records import (
    REQUESTS,
    UNASKED,
    AwaitHeadStart,
    Done,
    Drain,
    Fetch,
    JoinRequest,
    Push,
    Rest,
    ShardRecipe,
    ShardStatus,
    Wake,
    from_numbers,
    push_of,
    to_numbers,
)


class PendingPush(NamedTuple):
    """A contribution that waits for others, encoded as it came."""

    sender: str
    push: Push
    packet: Packet


class ServerShard:
    """Contributions wait in `pending` until there are enough of them; then they are merged in rank order, so that a group of all
    workers gives the same bits whatever the order of arrival. A group that nobody can complete is merged as it is: when all are done, or
    wait for each other. Responses wait in `clocks`. A first round is `joint` where the draw of workers has changed with them: it is that
    of all, whatever its quorum.
    """

    def __init__(self, agreement: Agreement, endpoint: ServerEndpoint, responses: ServedWeights) -> None:
        self.agreement = agreement
        self.codec = packets(agreement.codec)
        self.rank = endpoint.group.rank
        self.quorum = agreement.conditions.quorum(len(endpoint.workers))
        self.port = endpoint.port
        everyone = endpoint.workers if endpoint.upstream is None else endpoint.upstream.workers
        self.context = ExchangeContext(Group("", everyone, -1, endpoint.group.seed), self.port.rng("exchange"))
        self.record = endpoint.record
        self.snapshots = endpoint.snapshots
        self.responses = responses
        self.model_state: ModelState
        self.optimizer: HostedOptimizer | None = None
        self.log: WeightLog
        self.clocks = ServerClocks(endpoint.workers, agreement.consistency)
        self.joint = False
        self.joining: list[str] = []
        self.pending: list[PendingPush] = []
        self.before: dict[str, Tensor] = {}
        self.snapshot: Tensor | None = None
        self.initialized = False
        self.reported = ShardStatus(0, 0.0)
        self.drained: dict[str, int] = {}
        self.resting: dict[str, None] = {}
        self.checkpoints = endpoint.checkpoints
        self.upstream = None if endpoint.upstream is None else endpoint.upstream.link(self.port, self)

    async def live(self) -> None:
        """Until every worker that remains is done."""
        await follow_losses(self.port, self._lose)
        while not self.clocks.all_ended:
            delivery = await self.port.receive(REQUESTS)
            assert delivery is not None
            await self._take(delivery)
        if self.pending:  # nobody is left who could complete it
            await self._merge()
        if self.upstream is not None:
            await self.upstream.finish()
        for name in self.clocks.ended:
            await self._respond(name, *self.log.packet(self._weights(), -1))

    async def _lose(self, name: str) -> None:
        self.clocks.lose(name)
        await self.port.send(self.port.name, Message(REQUESTS, to_numbers(Wake())))

    async def _take(self, delivery: Delivery) -> None:
        request, sender = from_numbers(delivery.message.numbers), delivery.sender
        if sender not in self.clocks.merged and sender != self.port.name:
            return  # the last message of a worker that was lost meanwhile
        match request:
            case JoinRequest():
                await self._join(delivery)
            case Drain():
                self.drained[sender] = request.step
            case Rest():
                self.resting[sender] = None
            case Done():
                self.clocks.end(sender)
            case Fetch() | AwaitHeadStart():
                self.clocks.take(sender, request)
            case Push() if self.clocks.repeats(sender, request.clock):
                self.clocks.wait(sender, request)
            case Push():
                self.clocks.take(sender, request)
                self.pending.append(PendingPush(sender, request, delivery.message.tensors))
        if self.pending and ((len(self.pending) >= self.quorum and not self.joint) or self.clocks.stuck):
            await self._merge()
        if self.clocks.all_wait(self._pausing):
            self.joint = False
            if self.pending:
                await self._merge()
            self.clocks.pass_round(self.context.group)
        if self.drained:
            await self._write_if_drained()
        await self.release()

    @property
    def _pausing(self) -> set[str]:
        """The workers for whose steps nobody can wait: before a cut, or until all have taken their last; then each sends its rest."""
        resting = self.resting if self.clocks.merged.keys() - self.resting.keys() else {}
        return {*self.drained, *resting}

    async def _write_if_drained(self) -> None:
        """Write the state if nothing more can come before the checkpoint."""
        if self.clocks.merged.keys() - self.drained.keys():
            return
        step = max(self.drained.values())
        self.drained.clear()
        above = "" if self.upstream is None else await self.upstream.drain(step)
        problem = self.checkpoints.write(step, self.export()) or above
        for name in self.clocks.merged:
            await self.port.send(name, Message(f"d{self.rank}", text=problem))

    def export(self) -> StateTree:
        return {
            "model": self.model_state.export(),
            "optimizer": None if self.optimizer is None else self.optimizer.export(),
            "log": self.log.export(),
            "clocks": self.clocks.export(),
            "pending": [(each.sender, to_numbers(each.push), each.packet) for each in self.pending],
            "before": self.before,
            "upstream": None if self.upstream is None else self.upstream.export(),
            "streams": self.port.export(),
        }

    def restore(self, state: StateTree) -> None:
        self.model_state.restore(state["model"])
        if self.optimizer is not None:
            self.optimizer.restore(state["optimizer"])
        self.log.restore(state["log"])
        self.joint = self.clocks.chooses and (self.checkpoints.changed or state["clocks"]["pushed"].keys() != {*self.clocks.workers})
        self.clocks.restore(state["clocks"])
        self.before, self.snapshot = state["before"], None
        for sender, numbers, packet in state["pending"]:
            if self.clocks.counts(sender):
                self.pending.append(PendingPush(sender, push_of(numbers), packet))
        if self.upstream is not None:
            (self.upstream.take_over if self.checkpoints.changed else self.upstream.restore)(state["upstream"])
        self.port.restore(state["streams"])

    async def _join(self, delivery: Delivery) -> None:
        if delivery.message.text:
            recipe = msgspec.json.decode(delivery.message.text, type=ShardRecipe)
            layout = Layout(recipe.names, recipe.shapes)
            weights = delivery.message.tensors[0].clone()
            self.optimizer = self._hosted(recipe.optimizer, weights, layout)
            optimize = None if self.optimizer is None else self.optimizer.step_on
            self.model_state = ModelState(weights, layout, self.agreement.merge, self.context, optimize)
            if self.upstream is not None:
                await self.upstream.establish(self.model_state, recipe.optimizer)
            self.log = self.responses.log(weights, layout)
            self.checkpoints.resume(self.restore, self.export)
            if self.upstream is not None:
                await self.upstream.offer_again()
            self.initialized = True
        self.joining.append(delivery.sender)
        if self.initialized:
            for name in self.joining:
                await self._respond(name, *self.log.packet(self._weights(), -1))
            self.joining.clear()

    def _hosted(self, recipe: str, weights: Tensor, layout: Layout) -> HostedOptimizer | None:
        """The workers' optimizer, if it runs where weights are held."""
        if self.upstream is not None:
            return self.upstream.optimizer(recipe, weights, layout)
        return RemoteOptimizer(recipe, weights, layout) if recipe else None

    async def _merge(self) -> None:
        began = self.port.now()
        group = sorted(self.pending, key=lambda pending: rank_of(pending.sender))
        self.pending = []
        staleness = [self.model_state.version - pending.push.version for pending in group]
        values = [self.codec.decode(pending.packet, self.model_state.layout) for pending in group]
        self.snapshots.look(began, self.model_state.weights)
        before = None if self.upstream is None else self.model_state.weights.clone()
        if (slowest := self.clocks.slowest) < math.inf:
            self.model_state.clock = int(slowest)
        if self.agreement.payload is Payload.WEIGHTS:
            for pending in group:
                self.before[pending.sender] = self._weights()
            self.model_state.mix(values)
        else:
            self.model_state.move([
                Contribution(value, 1, late, pending.push.rates, pending.sender, pending.push.clock, pending.push.samples)
                for value, late, pending in zip(values, staleness, group, strict=True)
            ])  # fmt: skip
        self.snapshot = None
        self.log.changed(self.model_state.weights, self.model_state.version)
        for pending in group:
            self.clocks.merge(pending.sender, pending.push.clock)
        if self.clocks.chooses:
            self.clocks.pass_over(max(pending.push.clock for pending in group), self.context.group)
        now = self.port.now()
        self.record(Merged(now, self.port.name, self.model_state.version, staleness, now - began))
        await self.port.merged(len(group))
        if self.upstream is not None and before is not None:
            await self.upstream.offer(before - self.model_state.weights, self.slowest)

    @property
    def slowest(self) -> float:
        """The least clock of its workers whose contribution has been merged."""
        return self.clocks.slowest

    def changing(self) -> None:
        """The weights are about to be changed from elsewhere."""
        self.snapshots.look(self.port.now(), self.model_state.weights)

    def changed(self) -> None:
        """The weights have been changed; a worker that has this version gets the change with the next one."""
        self.snapshots.look(self.port.now(), self.model_state.weights)
        self.snapshot = None
        if self.initialized:
            self.log.changed(self.model_state.weights, self.model_state.version + 1)

    async def release(self) -> None:
        """Respond to all that may continue, in the order of their requests."""
        for name, known in self.clocks.release(self._allows):
            before = self.before.pop(name, None)
            weights = self._weights() if before is None else before
            await self._respond(name, *(() if known == self.model_state.version else self.log.packet(weights, known)))
        if self.initialized and not self.clocks.all_ended:
            await self._send_unasked()

    async def _send_unasked(self) -> None:
        """Send new weights to those who need not request them, when the ones before have left."""
        status = ShardStatus(self.model_state.version, self.clocks.slowest)
        if status != self.reported:
            self.reported = status
            for name in self.responses.receivers(list(self.clocks.merged)):
                await self.port.flush(name)
                await self.port.send(name, Message(UNASKED, status.to_numbers(), tensors=self.log.packet(self._weights(), -1)))

    def _allows(self, clock: int) -> bool:
        return self.upstream is None or self.upstream.may_proceed(clock)

    async def _respond(self, name: str, *weights: Tensor) -> None:
        status = ShardStatus(self.model_state.version, self.clocks.slowest)
        await self.port.send(name, Message(f"w{self.rank}", status.to_numbers(), tensors=weights))

    def _weights(self) -> Tensor:
        """The weights as they are now, safe to be sent: one copy a version."""
        if self.snapshot is None:
            self.snapshot = self.model_state.weights.clone()
        return self.snapshot
