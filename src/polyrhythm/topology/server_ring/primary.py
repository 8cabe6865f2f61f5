"""The primary of a part of the weights: a server's shard whose responses leave when its replicas have what it has merged."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polyrhythm.core.kernel.effects import Effect, Receive, Send, Spawn
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.protocols.state import ServerCheckpoints
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.driven import driven
from polyrhythm.topology.server_ring.key_cache import KnownKeys
from polyrhythm.topology.server_ring.led_part import LedPart
from polyrhythm.topology.server_ring.range_clocks import RangeClocks
from polyrhythm.topology.server_ring.ring_records import LIST, RingMessage, control_message
from polyrhythm.topology.server_ring.step_order import StepOrder
from polyrhythm.topology.servers.server_records import (
    REQUESTS,
    Done,
    Fetch,
    JoinRequest,
    Push,
    Wake,
    Wanted,
    from_numbers,
    push_of,
    to_numbers,
)
from polyrhythm.topology.servers.server_shard import PendingPush, ServerShard


@dataclass(frozen=True, slots=True)
class PartCheckpoints:
    """The checkpoints of a part, for its shard: with what is known of the steps that are merged. Implements `ServerCheckpoints`."""

    primary: Primary

    def resume(self, restore: Callable[[StateTree], None], export: Callable[[], StateTree]) -> None:
        """Restore what there was before, but where a copy of the lost primary's state is newer."""
        if self.primary.part.earlier is not None and self.primary.inherited is None:
            self.primary.restore(self.primary.part.earlier)

    @property
    def changed(self) -> bool:
        return self.primary.part.endpoint.checkpoints.changed

    def of(self, server: str) -> ServerCheckpoints:
        return self.primary.part.endpoint.checkpoints.of(server)

    def write(self, step: int, state: StateTree) -> str:
        return self.primary.part.endpoint.checkpoints.write(step, self.primary.part.export())


class Primary:
    """Runs a `ServerShard` that knows nothing of replicas: between two requests, its state goes down the chain if it has changed.

    Only then do its responses leave: all replicas have what a worker hears of. Contributions that wait for others are in no copy: they are
    replicated when they are merged, as one aggregate, and workers send again those that were not. `applied` are the steps of each worker
    that are merged, so that none that comes again is merged again; `asked` is the number of each worker's last request for a response.
    """

    def __init__(self, part: LedPart, early: Sequence[Delivery]) -> None:
        agreement = part.settings.agreement
        self.part = part
        self.early = deque(early)
        self.shard = ServerShard(agreement, replace(part.endpoint, checkpoints=PartCheckpoints(self)), part.settings.responses)
        self.requests = part.port.receive(REQUESTS).topic
        self.scope = len(self.requests) - len(REQUESTS)
        everyone = part.endpoint.workers
        alone = agreement.consistency.traits.head_start.steps > 0  # their pushes have no counterparts
        self.order = StepOrder(part.view.members, gathers=agreement.conditions.quorum(len(everyone)) == len(everyone) and not alone)
        self.keys = KnownKeys(part.settings.lists)
        self.applied: RangeClocks | None = None
        self.fed: dict[str, deque[int]] = {name: deque() for name in everyone}
        self.asked: dict[str, int] = {}
        self.recipe = ""
        self.mark: object = None
        self.woken = False
        self.outbox: list[Send] = []
        self.inherited: StateTree = part.copy.tree
        self.joins = self._joins()

    async def live(self) -> None:
        """Until no worker needs this part any more."""
        await self._store_inherited()
        await driven(self.shard.live(), self._handle)
        await self._commit()
        while not self.part.over:
            await self._take(await self._receive())

    async def _handle(self, effect: Effect[Any]) -> Any:
        match effect:
            case Receive(topic=self.requests):
                return await self._next()
            case Send(to=to) if to != self.part.port.name:
                self.outbox.append(effect)
                return None
            case Send(message=message) if message.topic == self.requests:
                return await self.part.port.send(self.part.port.name, control_message(RingMessage.WAKE))
            case Spawn():
                return await self.part.port.spawn(effect.name, driven(effect.coroutine, self._handle))
        return await effect

    # What the shard gets

    def _joins(self) -> deque[Delivery]:
        """The `JoinRequest` messages with which a shard begins as the lost one did."""
        if self.inherited is None:
            return deque()
        self.recipe = self.inherited["recipe"]
        first, *others = self.part.view.members
        weights = self.inherited["shard"]["model"]["weights"]
        joins = [Delivery(first, Message(self.requests, to_numbers(JoinRequest()), self.recipe, (weights,)))]
        return deque(joins + [Delivery(name, Message(self.requests, to_numbers(JoinRequest()))) for name in others])

    async def _next(self) -> Delivery:
        """The next request that the shard may take, after the result of the last one has been replicated and sent."""
        if self.joins:
            return self.joins.popleft()
        if self.inherited is not None:
            self._inherit()
        await self._commit()
        while (delivery := self.order.next()) is None:
            await self._take(await self._receive())
            if self.woken:
                self.woken = False
                return Delivery(self.part.port.name, Message(self.requests, to_numbers(Wake())))
        request = from_numbers(delivery.message.numbers)
        if isinstance(request, Push):
            self.fed[delivery.sender].append(request.clock)
        if isinstance(request, JoinRequest) and delivery.message.text:
            self.recipe = delivery.message.text
        return delivery

    def _inherit(self) -> None:
        """Continue with the state of the lost primary; a worker that has sent its last contribution says so again, unless it has left."""
        state, self.inherited = self.inherited, None
        self.outbox.clear()
        self.shard.restore(state["shard"])
        self._applied().restore(state["applied"])
        clocks = self.shard.clocks
        for name in list(clocks.merged):
            if not self.part.view.present(name):
                clocks.lose(name)
            elif name in self.part.left:
                self.order.take(Delivery(name, Message(self.requests, to_numbers(Done()))))
            else:
                clocks.merged[name] = clocks.pushed[name] = float(self._applied().slowest(name))
        self.mark = self._mark()

    async def _receive(self) -> Delivery:
        return self.early.popleft() if self.early else await self.part.receive()

    async def _take(self, delivery: Delivery) -> None:
        match RingMessage(int(delivery.message.numbers[0])):
            case RingMessage.REQUEST:
                await self._request(delivery)
            case RingMessage.STORED:
                self.part.copy.stored = int(delivery.message.numbers[1])
            case RingMessage.GOODBYE:
                self.part.left.add(delivery.sender)
            case RingMessage.WAKE:
                self.woken = True
                if not self.part.view.present(delivery.message.text):
                    self.order.lose(delivery.message.text)

    async def _request(self, delivery: Delivery) -> None:
        """A worker's request, with its list of keys; of a push that was merged before only the request for weights is left."""
        sender, (_, number, *numbers) = delivery.sender, delivery.message.numbers
        if not self.part.view.present(sender):
            return
        whole = await self._with_keys(sender, Message(self.requests, tuple(numbers), delivery.message.text, delivery.message.tensors))
        request = from_numbers(whole.numbers)
        if isinstance(request, Push) and self.applied is not None and request.clock <= self.applied.slowest(sender):
            if request.wanted is Wanted.NOTHING:
                return
            request = Fetch(request.clock, request.version, request.wanted)
            whole = Message(self.requests, to_numbers(request))
        if not isinstance(request, Push) or request.wanted is not Wanted.NOTHING:
            self.asked[sender] = int(number)
        self.order.take(Delivery(sender, whole))

    async def _with_keys(self, sender: str, message: Message) -> Message:
        """Ask for a list of keys that is not known, or not any more."""
        if self.keys.missing(message):
            key = self.keys.missing(message)
            await self.part.base.send(sender, Message(f"k{self.part.shard}", text=key))
            delivery = await self.part.port.receive(LIST)
            assert delivery is not None
            self.keys.learn(delivery.message.tensors[0])
        return self.keys.restored(message)

    # What others get

    async def _commit(self) -> None:
        """Have the replicas store what has changed, then let the responses leave."""
        if self.shard.initialized and self._mark() != self.mark:
            tree = self.tree()
            self.mark = self._mark()
            await self.part.copy.send(tree)
            await self._stored()
        for effect in self.outbox:
            await self._tell(effect.to, effect.message)
        self.outbox.clear()

    def tree(self) -> StateTree:
        """What is merged; before this server has continued with it, what it has of another. None where there is nothing yet."""
        if self.inherited is not None or not self.shard.initialized:
            return self.inherited
        self._advance()
        state = {**self.shard.export(), "pending": []}
        return {"recipe": self.recipe, "shard": state, "applied": self._applied().export()}

    def restore(self, state: StateTree) -> None:
        """Continue from a state of this or of other workers: what they have not heard to be merged comes again, but for lost ones."""
        self.shard.restore(state["shard"])
        clocks, keys = self.shard.clocks, (0, max(1, self.shard.model_state.layout.numel))
        earlier = RangeClocks(keys[1], state["workers"])
        earlier.restore(state["applied"])
        clocks.repeated.clear()
        for name in clocks.merged:
            if name in state["workers"]:
                clocks.merged[name] = clocks.pushed[name] = float(earlier.slowest(name))
            self._applied().advance(name, int(clocks.merged[name]), keys)
        pushes = [PendingPush(sender, push_of(numbers), packet) for sender, numbers, packet in state["pending"]]
        self.shard.pending += [each for each in pushes if each.sender not in clocks.merged and clocks.counts(each.sender)]

    async def _store_inherited(self) -> None:
        """The last state goes down the chain again: who was primary before may not have reached all."""
        self.part.copy.stored = 0
        await self.part.copy.send_again()
        await self._stored()

    async def _stored(self) -> None:
        """Wait until the last replica has the last state; other messages wait, but a loss has the state sent again."""
        while self.part.copy.stored < self.part.copy.number:
            delivery = await self.part.receive()
            kind = RingMessage(int(delivery.message.numbers[0]))
            if kind is RingMessage.STORED:
                await self._take(delivery)
            else:
                self.early.append(delivery)
            if kind is RingMessage.WAKE:
                await self.part.copy.send_again()

    def _mark(self) -> object:
        """A value that differs when the state has changed."""
        return self.shard.model_state.version, tuple(self.shard.clocks.merged.items())

    def _applied(self) -> RangeClocks:
        if self.applied is None:
            self.applied = RangeClocks(max(1, self.shard.model_state.layout.numel), self.part.endpoint.workers)
        return self.applied

    def _advance(self) -> None:
        waiting = {(pending.sender, pending.push.clock) for pending in self.shard.pending}
        keys = (0, max(1, self.shard.model_state.layout.numel))
        for name, fed in self.fed.items():
            while fed and (name, fed[0]) not in waiting:
                self._applied().advance(name, fed.popleft(), keys)

    async def _tell(self, to: str, message: Message) -> None:
        """Send a response with the number of its request, and the step of the worker that all replicas have."""
        if not self.part.view.present(to) or to in self.part.left:
            return
        applied = self._applied().slowest(to) if self.shard.initialized else -math.inf
        topic = message.topic[self.scope :]
        numbers = (float(self.asked.get(to, 0)), float(applied), *message.numbers)
        await self.part.base.send(to, Message(topic, numbers, message.text, message.tensors))
