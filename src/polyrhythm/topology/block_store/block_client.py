"""A worker's side of a block store: it publishes gradients, does tasks, and collects the weights."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.codec import inherited, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.block_store.block_records import (
    BLOCKS,
    REQUESTS,
    Begin,
    BlockRequest,
    Gradient,
    SlicePublished,
    TaskBlocks,
    Weights,
    from_store,
    to_numbers,
)
from polyrhythm.topology.block_store.block_task import SliceBlocks, SliceTask
from polyrhythm.topology.servers.server_records import Done, Drain, ShardRecipe


class BlockClient:
    """One worker. `kept` are the blocks that it published last of each slice: they need not be sent back to it."""

    offers = NOTHING

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.agreement = agreement
        self.codec = packets(agreement.codec)
        self.group = endpoint.group
        self.port = endpoint.port
        self.names = endpoint.servers
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.model_state: WeightsView
        self.tasks: list[SliceTask] = []
        self.coded: list[State] = []
        self.kept: dict[int, SliceBlocks] = {}

    async def establish(self, initial: InitialState) -> Response:
        self.model_state = initial.model_state
        layouts = self.model_state.layout.split(len(self.names))
        self.tasks = [SliceTask(self.agreement, k, part, initial.optimizer, self.group) for k, part in enumerate(layouts)]
        self.coded = [self.codec.initial(part) for part in layouts]
        parts = self.model_state.layout.cut(initial.agreed(), layouts)
        for name, part, layout in zip(self.names, parts, layouts, strict=True):
            if self.group.is_first:
                recipe = msgspec.json.encode(ShardRecipe(layout.names, layout.shapes, "")).decode()
                await self._send(name, Begin(), recipe, (part,))
            else:
                await self._send(name, Begin())
        return AdoptWeights(await self._collect(None))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        layouts = [task.layout for task in self.tasks]
        contexts = self.context.at(clock, lambda: self.model_state.weights).parts(layouts)
        pieces = self.model_state.layout.cut(value, layouts)
        for turn in range(len(layouts)):  # not all to the same slice at once
            k = (self.group.rank + turn) % len(layouts)
            encoded = self.codec.encode(pieces[k], layouts[k], self.coded[k], contexts[k])
            self.coded[k] = encoded.state
            await self._send(self.names[k], Gradient(clock, rates), tensors=encoded.packet)
        return AdoptWeights(await self._collect(clock))

    async def _collect(self, clock: int | None) -> Tensor:
        """The weights after step `clock` (numel,), or those that are there; tasks of that step are done meanwhile."""
        found: dict[int, Tensor] = {}
        while len(found) < len(self.names):
            delivery = await self.port.receive(BLOCKS)
            assert delivery is not None
            block = from_store(delivery.message.numbers)
            if isinstance(block, Weights):
                [found[block.slice]] = delivery.message.tensors
            elif block.step == clock and block.slice not in found:
                await self._do(block, delivery.message)
        return torch.cat([found[k] for k in range(len(self.names))])

    async def _do(self, given: TaskBlocks, message: Message) -> None:
        task, width = self.tasks[given.slice], self.codec.width
        before = SliceBlocks(message.tensors[0], message.text, message.tensors[1 : given.held]) if given.held else self.kept[given.slice]
        blocks = message.tensors[given.held :]
        contributions = [
            Contribution(
                self.codec.decode(blocks[k * width : (k + 1) * width], task.layout), 1, 0, rates, self.group.members[rank], given.step
            )
            for k, (rank, rates) in enumerate(zip(given.ranks, given.rates, strict=True))
        ]
        after = task.run(before, contributions, given.step)
        self.kept[given.slice] = after
        await self.port.merged(len(contributions))
        await self._send(self.names[given.slice], SlicePublished(given.step), after.text, after.all)

    async def finish(self) -> Response:
        for name in self.names:
            await self._send(name, Done())
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        problems = []
        for name in self.names:
            await self._send(name, Drain(step))
        for k, name in enumerate(self.names):
            delivery = await self.port.receive(f"d{k}", name)
            assert delivery is not None
            problems.append(delivery.message.text)
        return next(filter(None, problems), "")

    def export(self) -> StateTree:
        return self.coded

    def restore(self, state: StateTree) -> None:
        self.coded = state

    def take_over(self, state: StateTree, own: bool) -> None:
        layouts = [task.layout for task in self.tasks]
        self.coded = taken_over(self.codec, state, layouts, own)

    def inherit(self, residual: Tensor) -> None:
        layouts = [task.layout for task in self.tasks]
        self.coded = inherited(self.codec, self.coded, layouts, self.model_state.layout.cut(residual, layouts))

    def states(self) -> list[tuple[State, Tensor]]:
        return [(state, self.codec.residual(state, task.layout)) for state, task in zip(self.coded, self.tasks, strict=True)]

    async def _send(self, name: str, request: BlockRequest, text: str = "", tensors: tuple[Tensor, ...] = ()) -> None:
        await self.port.send(name, Message(REQUESTS, to_numbers(request), text, tensors))
