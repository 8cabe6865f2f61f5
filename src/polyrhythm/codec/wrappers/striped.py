"""Encode twice: each worker sums one stripe of all workers' values, and sends the encoded sum to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under
from polyrhythm.core.protocols.requests import AllGatherRequest, AllToAllRequest, Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Striped:
    """Send each worker its stripe, encoded by `inner`, sum the received parts of one's own, and gather the sums, encoded by `inner` again.

    The exchange of 1-bit SGD (Seide et al., 2014, section 3): with Striped(ErrorFeedback(OneBit())) both quantizations have
    their own residual, the second one at the stripe's owner. The encoding error of a sum counts as not sent by the owner,
    so that the total is the sum of what all sent. A stripe is a range of whole rows. State: "stripes", their number,
    "out/<stripe>/…" for the stripes that this worker sends, "back/<stripe>/…" for the sums of the stripe that it owns.
    """

    inner: Codec

    def __post_init__(self) -> None:
        if not self.inner.traits.makes_packets:
            raise CompositionError(
                f"Striped({self.inner}) has nothing to send: {type(self.inner).__name__} only aggregates and makes no packets. Use it bare."
            )
        if self.inner.traits.transforms:
            raise CompositionError(
                f"Striped({self.inner}) would have {type(self.inner).__name__} transform sums of what it has transformed: wrap the stripes "
                "in it instead."
            )

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for collectives only, because stripes need all workers."""
        inner = self.inner.traits
        return replace(inner, requires=inner.requires | {Capability.COLLECTIVES}, verbatim=False, recodes=True)

    def initial(self, layout: Layout) -> State:
        """Nothing yet: the number of stripes is known when the first aggregation starts."""
        return {}

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """Exchange stripes, sum one, gather the sums."""
        inner, rank, stripes = packets(self.inner), context.group.rank, _stripes(layout, context.group.size)
        contexts = context.parts(stripes)
        mine, home = f"back/{rank}", stripes[rank]
        if _divided_otherwise(state, mine, len(stripes)):
            left = self.residual(state, layout).to(value)
            value, state = torch.where(left == 0, value, value + left), {}  # a value without a gradient, -0, stays one
        states = divide(state, [mine, *_outward(len(stripes))])
        out = [
            inner.encode(part, stripe, states[name] or inner.initial(stripe), own)
            for name, part, stripe, own in zip(_outward(len(stripes)), layout.cut(value, stripes), stripes, contexts, strict=True)
        ]
        received: Sequence[Packet] = yield AllToAllRequest([encoded.packet for encoded in out])
        summed = inner.decode(received[0], home)
        for packet in received[1:]:
            summed = summed + inner.decode(packet, home)
        back = inner.encode(summed, home, states[mine] or inner.initial(home), contexts[rank])
        sums: Sequence[Packet] = yield AllGatherRequest(back.packet)
        total = torch.cat([inner.decode(packet, stripe) for packet, stripe in zip(sums, stripes, strict=True)])
        sent = [encoded.sent for encoded in out]
        sent[rank] = sent[rank] + (back.sent - summed)
        following = {"stripes": torch.tensor(len(stripes)), **under(mine, back.state)}
        for name, encoded in zip(_outward(len(stripes)), out, strict=True):
            following |= under(name, encoded.state)
        return Aggregated(total, torch.cat(sent), following)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The residuals of the stripes that this worker sends, plus, in its own stripe, that of the sums that it sends back."""
        if "stripes" not in state:
            return torch.zeros(layout.numel)
        stripes = _stripes(layout, int(state["stripes"]))
        names = [(f"out/{k}", f"back/{k}") for k in range(len(stripes))]
        states = divide(state, chain.from_iterable(names))
        residual = []
        for legs, stripe in zip(names, stripes, strict=True):
            here = torch.zeros(stripe.numel)
            for leg in legs:
                here = here + self.inner.residual(states[leg], stripe) if states[leg] else here
            residual.append(here)
        return torch.cat(residual)

    def joined(self, state: State, layout: Layout) -> State:
        """Nothing yet, as at the start: inner codecs begin anew, as they do where the number of stripes has changed."""
        return {}

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        """With the residual among those that this worker sends."""
        count = int(state.get("stripes", 1))
        stripes, following = _stripes(layout, count), {**state, "stripes": torch.tensor(count)}
        states = divide(state, _outward(count))
        for name, left, stripe in zip(_outward(count), layout.cut(residual, stripes), stripes, strict=True):
            following |= under(name, self.inner.inherit(states[name] or self.inner.initial(stripe), left, stripe))
        return following


@lru_cache(maxsize=64)
def _stripes(layout: Layout, workers: int) -> tuple[Layout, ...]:
    return tuple(layout.split(workers))


def _outward(stripes: int) -> list[str]:
    return [f"out/{k}" for k in range(stripes)]


def _divided_otherwise(state: State, mine: str, stripes: int) -> bool:
    """True if `state` is of another number of stripes, or of a worker that owned another than `mine`."""
    before = int(state["stripes"]) if "stripes" in state else stripes
    return before != stripes or any(name.startswith("back/") and not name.startswith(f"{mine}/") for name in state)
