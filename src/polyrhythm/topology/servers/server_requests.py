"""A worker's requests to the shards of parameter servers, and their responses.

`Server`, `Blockwise`, `BroadcastTree` and `ServerRing` make one for each worker; the worker's client calls it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Send
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import inherited, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.division import Divided, Division
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.served_weights import ServedWeights
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import (
    REQUESTS,
    AwaitHeadStart,
    Done,
    Drain,
    Fetch,
    JoinRequest,
    Push,
    Rest,
    ServerRequest,
    ShardRecipe,
    ShardStatus,
    Wanted,
    push_of,
    to_numbers,
)


class SentPush(NamedTuple):
    """A push to one shard as it was sent, and what of the value it stands for (numel of its part,)."""

    push: Push
    packet: Packet
    sent: Tensor


class ServerRequests:
    """One worker's requests to all shards.

    `unanswered` are, by shard, the pushes that it may not have yet, each request that it answers being a None: when the crew changes, what
    was on its way is dropped, and they are sent `again`. A shard knows by their steps which it has.
    `versions` and `clocks` are, by shard, the version and the slowest clock of the last response: how stale one's weights may be.
    """

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, responses: ServedWeights, division: Division) -> None:
        self.served = responses
        self.division = division
        self.codec = packets(agreement.codec)
        self.weighs = Capability.SAMPLES in agreement.merge.traits.requires
        self.group = endpoint.group
        self.port = endpoint.port
        self.names = endpoint.servers
        self.model_state: WeightsView
        self.divided: Divided
        self.coded: list[State] = []
        self.versions = [0] * len(self.names)
        self.clocks = [0.0] * len(self.names)
        self.unanswered: list[list[SentPush | None]] = [[] for _ in self.names]
        self.again: list[list[SentPush]] = [[] for _ in self.names]
        self.context = ExchangeContext(self.group, self.port.rng("codec"))

    async def join(self, initial: InitialState) -> Tensor:
        """Worker 0 sends its weights, and all get them (numel,)."""
        self.model_state = initial.model_state
        layout = self.model_state.layout
        self.divided = Divided.of(layout, self.division.parts(layout, len(self.names)))
        self.coded = [self.codec.initial(part) for part in self.divided.parts]
        if self.group.is_first:
            for name, part, piece in zip(self.names, self.divided.parts, self.cut(initial.agreed()), strict=True):
                recipe = msgspec.json.encode(ShardRecipe(part.names, part.shapes, initial.optimizer)).decode()
                await self._send(name, JoinRequest(), recipe, (piece,))
        else:
            for name in self.names:
                await self._send(name, JoinRequest())
        return await self.responses()

    def cut(self, flat: Tensor) -> list[Tensor]:
        """The parts of `flat` (numel,) that belong to each shard."""
        return self.divided.cut(flat)

    def joined(self, pieces: Sequence[Tensor]) -> Tensor:
        """The vector (numel,) whose parts are each shard's."""
        return self.divided.join(pieces)

    def push(self, value: Tensor, clock: int, wanted: Sequence[Wanted], rates: tuple[float, ...]) -> Coroutine[Any, Any, Tensor]:
        """Push each shard its part of `value` (numel,), and request what is wanted of it. Returns what was sent to all of them (numel,)."""
        return self.push_to(value, clock, dict(enumerate(wanted)), rates)

    async def push_to(self, value: Tensor, clock: int, wanted: Mapping[int, Wanted], rates: tuple[float, ...]) -> Tensor:
        """Push only to the shards that are keys of `wanted`. Returns what was sent (numel,), zero for the others."""
        await self.port.flush()  # where no response is waited for, pushes would pile up on a line that is too slow
        samples = self.model_state.take_samples() if self.weighs else 0.0
        context = self.context.at(clock, lambda: self.model_state.weights, self.model_state.factors)
        contexts = context.divided(self.divided.parts, self.cut)
        pieces = self.cut(value)
        sent = [piece if k in wanted else torch.zeros_like(piece) for k, piece in enumerate(pieces)]
        for k in wanted:
            if (before := await self._repeat(k, clock, wanted[k])) is not None:
                sent[k] = before
                continue
            encoded = self.codec.encode(pieces[k], self.divided.parts[k], self.coded[k], contexts[k])
            self.coded[k] = encoded.state
            sent[k] = encoded.sent
            push = Push(clock, self.versions[k], wanted[k], rates, samples)
            await self._push(k, SentPush(push, encoded.packet, encoded.sent))
        return self.joined(sent)

    async def _push(self, k: int, each: SentPush) -> None:
        self.unanswered[k] += [each] if each.push.wanted is Wanted.NOTHING else [each, None]
        await self._send(self.names[k], each.push, tensors=each.packet)

    async def _repeat(self, k: int, clock: int = 0, wanted: Wanted = Wanted.NOTHING) -> Tensor | None:
        """Send shard `k` once more what it may not have. The value sent, where the last is of step `clock`, for which this is `wanted`."""
        found = None
        while self.again[k]:
            each = self.again[k].pop(0)
            same = each.push.clock == clock and not self.again[k]
            found = each.sent if same else None
            await self._push(k, each._replace(push=each.push._replace(wanted=wanted if same else Wanted.NOTHING)))
        return found

    async def _ask(self, k: int, request: ServerRequest) -> None:
        """Send a request that shard `k` answers."""
        await self._repeat(k)
        self.unanswered[k].append(None)
        await self._send(self.names[k], request)

    async def fetch(self, clock: int, wanted: Sequence[Wanted]) -> None:
        """Request what is wanted of each shard, and push nothing."""
        for k, each in enumerate(wanted):
            if each is not Wanted.NOTHING:
                await self._ask(k, Fetch(clock, self.versions[k], each))

    async def read(self, shard: int, clock: int) -> Tensor:
        """The weights of one shard (numel of its part,), after step `clock`."""
        await self._ask(shard, Fetch(clock, self.versions[shard], Wanted.NEWER))
        weights = await self.response(shard)
        assert weights is not None, "it waits"
        return weights

    async def begin(self, clock: int, workers: int) -> Tensor:
        """The weights (numel,) when each of the first `workers` has pushed its contribution of step `clock`, or is done."""
        for k in range(len(self.names)):
            await self._ask(k, AwaitHeadStart(clock, workers))
        return await self.responses()

    async def done(self) -> None:
        """End the contributions, and request the final weights."""
        for k in range(len(self.names)):
            await self._ask(k, Done())

    async def rest(self) -> None:
        """Take no further step, unless the crew changes."""
        for name in self.names:
            await self._send(name, Rest())

    def _send(self, name: str, request: ServerRequest, text: str = "", tensors: tuple[Tensor, ...] = ()) -> Send:
        return self.port.send(name, Message(REQUESTS, to_numbers(request), text, tensors))

    async def response(self, shard: int, timeout: float | None = None) -> Tensor | None:
        """The shard's weights (numel of its part,); None if no response came in time. A version that is known comes without weights."""
        delivery = await self.port.receive(f"w{shard}", self.names[shard], timeout)
        if delivery is None:
            return None
        if None in self.unanswered[shard]:
            del self.unanswered[shard][: self.unanswered[shard].index(None) + 1]
        self.versions[shard], self.clocks[shard] = ShardStatus.from_numbers(delivery.message.numbers)
        return self.served.unpacked(delivery.message.tensors, self.cut(self.model_state.anchor)[shard].cpu(), self.divided.parts[shard])

    def merged(self, shard: int, clock: float) -> None:
        """Forget the pushes until step `clock`, which the shard has merged: no response says so where weights come unasked."""
        self.unanswered[shard] = [each for each in self.unanswered[shard] if each is None or each.push.clock > clock]

    async def responses(self) -> Tensor:
        """The weights of all shards (numel,), in order."""
        weights = [await self.response(k) for k in range(len(self.names))]
        return self.joined([part for part in weights if part is not None])

    async def drain(self, step: int) -> str:
        """Have the shards write their state, after all that this worker has sent them. Returns what prevented one of them."""
        for k, name in enumerate(self.names):
            await self._repeat(k)
            await self._send(name, Drain(step))
        problems = []
        for k, name in enumerate(self.names):
            delivery = await self.port.receive(f"d{k}", name)
            assert delivery is not None
            problems.append(delivery.message.text)
            self.unanswered[k].clear()
        return next(filter(None, problems), "")

    def export(self) -> StateTree:
        return self.exported([[each for each in line if each is not None] for line in self.unanswered])

    def exported(self, pushes: Sequence[Sequence[SentPush]]) -> StateTree:
        """The state of a worker that sends these `pushes` again, by shard, when the crew has changed."""
        sent = [
            [(to_numbers(each.push), each.packet, each.sent) for each in (*line, *left)]
            for line, left in zip(pushes, self.again, strict=True)
        ]
        state = {"codec": self.coded, "versions": self.versions, "clocks": self.clocks}
        return {**state, "sent": sent} if any(sent) else state

    def restore(self, state: StateTree) -> None:
        self.coded, self.versions, self.clocks = state["codec"], state["versions"], state["clocks"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """As `Channel.take_over`; versions of weights continue, because the servers' do."""
        self.coded = taken_over(self.codec, state["codec"], self.divided.parts, own)
        self.versions, self.clocks = state["versions"], state["clocks"]
        self.again = [[] for _ in self.names]
        if own and len(state.get("sent", ())) == len(self.names):
            self.again = [[SentPush(push_of(numbers), packet, sent) for numbers, packet, sent in line] for line in state["sent"]]

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        self.coded = inherited(self.codec, self.coded, self.divided.parts, self.cut(residual))

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states and their residuals: by shard, or as one where parts do not lie end to end."""
        if not self.coded:
            return []
        residuals = [self.codec.residual(state, part) for state, part in zip(self.coded, self.divided.parts, strict=True)]
        if self.divided.consecutive:
            return list(zip(self.coded, residuals, strict=True))
        return [({f"{k}/{name}": tensor for k, state in enumerate(self.coded) for name, tensor in state.items()}, self.joined(residuals))]
