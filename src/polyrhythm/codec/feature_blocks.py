"""Block coordinate steps: at each step the gradient of one block of the weights is sent."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregation, Encoded, PacketCodec, gather_and_sum
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under, within
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import GRADIENTS, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class FeatureBlocks:
    """At step t all workers send the gradient of one of `blocks` ranges, the same one, encoded by `inner`; only its weights are updated.

    The schedule of delayed block proximal gradient (Li et al., OSDI 2014, algorithm 3; NIPS 2014): every block once in `blocks` steps, in
    an order that is drawn anew each time. A server's part of the weights is divided into as many ranges. The gradient of
    other blocks is dropped (in the paper it is not computed), and `ProximalSGD` leaves their weights alone. `inner` has a state for
    each block.
    """

    inner: PacketCodec
    blocks: int

    def __post_init__(self) -> None:
        if not self.blocks >= 1:
            raise CompositionError(f"{self!r} has no block to send: give 1 (all of the weights) or more.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for gradients; lossy, and its packets are not ranges."""
        inner = self.inner.traits
        payloads, requires = inner.payloads & GRADIENTS, inner.requires | {Capability.PACKETS}
        turns = inner.recurs.with_(Recurrence(period=self.blocks))
        return replace(inner, payloads=payloads, requires=requires, lossy=True, unbiased=False, verbatim=False, ranged=False, recurs=turns)

    @property
    def width(self) -> int:
        """The number of the block, and the inner codec's tensors."""
        return 1 + self.inner.width

    def initial(self, layout: Layout) -> State:
        """The inner codec's state of each block, under "<block>/…"."""
        state: State = {}
        for block in range(self.blocks):
            state |= under(str(block), self.inner.initial(self._layout(block, layout)))
        return state

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The number of the block (1,), and the inner codec's packet of its range."""
        block = block_at(context.clock, self.blocks, context.group.seed)
        start, end = self._range(block, layout)
        part = self._layout(block, layout)
        encoded = self.inner.encode(value[start:end], part, divide(state, [str(block)])[str(block)], context.range(start, part))
        sent = torch.full_like(value, NO_GRADIENT)
        sent[start:end] = encoded.sent
        number = torch.tensor([block], dtype=torch.int32)
        return Encoded((number, *encoded.packet), sent, {**state, **under(str(block), encoded.state)})

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The values of the block, and NO_GRADIENT elsewhere."""
        number, *rest = packet
        block = int(number)
        start, end = self._range(block, layout)
        inner = self.inner.decode(tuple(rest), self._layout(block, layout))
        value = torch.full((layout.numel,), NO_GRADIENT, dtype=inner.dtype)
        value[start:end] = inner
        return value

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        return gather_and_sum(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The inner codec's residual of each block, end to end."""
        states = divide(state, map(str, range(self.blocks)))
        return torch.cat([self.inner.residual(states[str(block)], self._layout(block, layout)) for block in range(self.blocks)])

    def joined(self, state: State, layout: Layout) -> State:
        for block in range(self.blocks):
            state = within(str(block), state, functools.partial(self.inner.joined, layout=self._layout(block, layout)))
        return state

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        for block in range(self.blocks):
            part, left = self._layout(block, layout), residual[slice(*self._range(block, layout))]
            state = within(str(block), state, functools.partial(self.inner.inherit, residual=left, layout=part))
        return state

    def _range(self, block: int, layout: Layout) -> tuple[int, int]:
        return layout.numel * block // self.blocks, layout.numel * (block + 1) // self.blocks

    def _layout(self, block: int, layout: Layout) -> Layout:
        start, end = self._range(block, layout)
        return Layout((f"block {block}",), ((end - start,),))


def block_at(clock: int, blocks: int, seed: int) -> int:
    """The number of the block that all workers send at step `clock`, from 1."""
    turn, place = divmod(clock - 1, blocks)
    return _order(turn, blocks, seed)[place]


@functools.lru_cache(maxsize=64)
def _order(turn: int, blocks: int, seed: int) -> tuple[int, ...]:
    return tuple(rng.stream(seed, "blocks", turn).permutation(blocks).tolist())
