"""A parameter server's shard: merges what workers push, answers when the consistency lets them go on."""

from __future__ import annotations

import math

import msgspec
from torch import Tensor

from polyrhythm.kernel.events import Merged
from polyrhythm.kernel.group import Group
from polyrhythm.kernel.message import Delivery, Message
from polyrhythm.kernel.names import rank_of
from polyrhythm.model.remote_optimizer import host
from polyrhythm.model.state import ModelState
from polyrhythm.pieces.codec import packets
from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.topology import Agreement, ServerEndpoint
from polyrhythm.pieces.traits import Payload
from polyrhythm.tensors import Layout
from polyrhythm.topology.losses import GONE
from polyrhythm.topology.server_requests import DONE, JOIN, NEWER, NOTHING, PUSH, REQUESTS, WAKE, Founding


class ServerShard:
    """`clocks` are the latest merged steps by worker: infinite for one that is done or gone.

    Contributions wait in `pending` until there are enough of them; then they are merged in rank order, so that a group that is
    everybody gives the same bits whatever the order of arrival. A last group that stays short is merged when all are done.
    Answers wait in `waiting` until their worker may go on, with its clock and the version that it need not be sent again (-1: none).
    """

    def __init__(self, agreement: Agreement, endpoint: ServerEndpoint) -> None:
        self.agreement = agreement
        self.codec = packets(agreement.codec)
        self.rank = endpoint.group.rank
        self.workers = len(endpoint.workers)
        self.port = endpoint.port
        self.context = ExchangeContext(Group("", endpoint.workers, -1, endpoint.group.seed), self.port.rng("exchange"))
        self.record = endpoint.record
        self.snapshots = endpoint.snapshots
        self.model_state: ModelState
        self.clocks = dict.fromkeys(endpoint.workers, 0.0)
        self.joining: list[str] = []
        self.pending: list[Delivery] = []
        self.waiting: dict[str, tuple[int, int]] = {}
        self.ending: list[str] = []
        self.before: dict[str, Tensor] = {}
        self.snapshot: Tensor | None = None
        self.founded = False

    async def live(self) -> None:
        """Until every worker that remains is done."""
        await self.port.spawn("lost", self._watch())
        while len(self.ending) < len(self.clocks):
            delivery = await self.port.receive(REQUESTS)
            assert delivery is not None
            await self._take(delivery)
        if self.pending:  # nobody is left who could complete it
            await self._merge()
        for name in self.ending:
            await self._answer(name, self._weights())

    async def _watch(self) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            name = delivery.message.text
            self.clocks.pop(name, None)
            self.waiting.pop(name, None)
            if name in self.ending:
                self.ending.remove(name)
            await self.port.send(self.port.name, Message(REQUESTS, (WAKE,)))

    async def _take(self, delivery: Delivery) -> None:
        kind, sender = delivery.message.numbers[0], delivery.sender
        if kind != WAKE and sender not in self.clocks:
            return  # a last word of a worker that was lost meanwhile
        if kind == JOIN:
            await self._join(delivery)
        elif kind == DONE:
            self.clocks[sender] = math.inf
            self.ending.append(sender)
        elif kind != WAKE:
            _, clock, version, asks, *_ = delivery.message.numbers
            if asks != NOTHING:
                self.waiting[sender] = (int(clock), int(version) if asks == NEWER else -1)
            if kind == PUSH:
                await self._gather(delivery)
        await self._release()

    async def _gather(self, delivery: Delivery) -> None:
        self.pending.append(delivery)
        if len(self.pending) >= self.agreement.consistency.quorum(self.workers):
            await self._merge()

    async def _join(self, delivery: Delivery) -> None:
        if delivery.message.text:
            founding = msgspec.json.decode(delivery.message.text, type=Founding)
            layout = Layout(founding.names, founding.shapes)
            weights = delivery.message.tensors[0].clone()
            optimize = host(founding.optimizer, weights, layout) if founding.optimizer else None
            self.model_state = ModelState(weights, layout, self.agreement.merge, self.context, optimize)
            self.founded = True
        self.joining.append(delivery.sender)
        if self.founded:
            for name in self.joining:
                await self._answer(name, self._weights())
            self.joining.clear()

    async def _merge(self) -> None:
        began = self.port.now()
        group = sorted(self.pending, key=lambda delivery: rank_of(delivery.sender))
        self.pending = []
        staleness = [self.model_state.version - int(delivery.message.numbers[2]) for delivery in group]
        values = [self.codec.decode(delivery.message.tensors, self.model_state.layout) for delivery in group]
        self.snapshots.look(began, self.model_state.weights)
        if (slowest := min(self.clocks.values(), default=math.inf)) < math.inf:
            self.model_state.clock = int(slowest)
        if self.agreement.payload is Payload.WEIGHTS:
            for delivery in group:
                self.before[delivery.sender] = self._weights()
            self.model_state.mix(values)
        else:
            self.model_state.move([
                Contribution(value, 1, late, delivery.message.numbers[4:])
                for value, late, delivery in zip(values, staleness, group, strict=True)
            ])  # fmt: skip
        self.snapshot = None
        for delivery in group:
            if delivery.sender in self.clocks:
                # not back from infinity: a worker may be done before its last group is full
                self.clocks[delivery.sender] = max(self.clocks[delivery.sender], delivery.message.numbers[1])
        now = self.port.now()
        self.record(Merged(now, self.port.name, self.model_state.version, staleness, now - began))
        await self.port.merged(len(group))

    async def _release(self) -> None:
        """Answer all who may go on, in the order in which they asked."""
        slowest = min(self.clocks.values(), default=math.inf)
        for name, (clock, known) in list(self.waiting.items()):
            if self.agreement.consistency.may_proceed(clock, slowest):
                del self.waiting[name]
                weights = self.before.pop(name, None)
                await self._answer(name, *(() if known == self.model_state.version else (self._weights() if weights is None else weights,)))

    async def _answer(self, name: str, *weights: Tensor) -> None:
        numbers = (float(self.model_state.version), min(self.clocks.values(), default=math.inf))
        await self.port.send(name, Message(f"w{self.rank}", numbers, tensors=weights))

    def _weights(self) -> Tensor:
        """The weights as they are now, safe to be sent: one copy a version."""
        if self.snapshot is None:
            self.snapshot = self.model_state.weights.clone()
        return self.snapshot
