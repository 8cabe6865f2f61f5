"""Speak twice: each worker sums one stripe of everybody's, and tells the sum in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyrhythm.pieces.codec import Codec, Conversation, Encoded, Speaker, Told
from polyrhythm.pieces.questions import Gather, Packet, Scatter
from polyrhythm.pieces.terms import Manner, Subject
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Striped:
    """Scatter stripes in the words of `inner`, sum what came for mine, and gather the sums in the words of `inner` again.

    The exchange of 1-bit SGD (Seide et al., 2014, section 3): with Striped(ErrorFeedback(OneBit())) both quantizations have
    their own residual, the second one at the stripe's owner. A stripe is a range of whole rows. State: "out/<stripe>/…" for the
    stripes that I send, "back/<my stripe>/…" for the sums that I tell.
    """

    inner: Codec

    @property
    def carries(self) -> frozenset[Subject]:
        """As the inner codec."""
        return self.inner.carries

    @property
    def manners(self) -> frozenset[Manner]:
        """Collectively: stripes need everybody."""
        return self.inner.manners & {Manner.COLLECTIVE}

    @property
    def forgets(self) -> bool:
        """As the inner codec."""
        return self.inner.forgets

    @property
    def width(self) -> int:
        """As the inner codec, a stripe."""
        return self.inner.width

    def initial(self, layout: Layout) -> State:
        """Nothing yet: how many stripes there are is known when the first conversation begins."""
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, draw: np.random.Generator) -> Encoded:
        """Never asked for: stripes need everybody."""
        raise NotImplementedError("Striped speaks collectively only")

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Never asked for: stripes need everybody."""
        raise NotImplementedError("Striped speaks collectively only")

    def converse(self, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
        """Scatter, sum, gather."""
        rank, stripes = speaker.place.rank, layout.split(speaker.place.workers)
        out = [
            self.inner.encode(part, stripe, _take(f"out/{k}", state) or self.inner.initial(stripe), speaker.draw)
            for k, (part, stripe) in enumerate(zip(layout.cut(value, stripes), stripes, strict=True))
        ]
        mine: Sequence[Packet] = yield Scatter([encoded.packet for encoded in out])
        summed = self.inner.decode(mine[0], stripes[rank])
        for packet in mine[1:]:
            summed = summed + self.inner.decode(packet, stripes[rank])
        back = self.inner.encode(summed, stripes[rank], _take(f"back/{rank}", state) or self.inner.initial(stripes[rank]), speaker.draw)
        sums: Sequence[Packet] = yield Gather(back.packet)
        total = torch.cat([self.inner.decode(packet, stripe) for packet, stripe in zip(sums, stripes, strict=True)])
        following = _put(f"back/{rank}", back.state)
        for k, encoded in enumerate(out):
            following |= _put(f"out/{k}", encoded.state)
        return Told(total, torch.cat([encoded.said for encoded in out]), following)

    def owed(self, state: State, layout: Layout) -> Tensor:
        """The residuals of the stripes that I send, and at my own stripe that of the sums that I tell."""
        result = torch.zeros(layout.numel)
        workers = 1 + max((int(name.split("/")[1]) for name in state if name.startswith("out/")), default=-1)
        if not workers:
            return result
        stripes = layout.split(workers)
        for k, part in enumerate(layout.cut(result, stripes)):
            for leg in ("out", "back"):
                if inner := _take(f"{leg}/{k}", state):
                    part += self.inner.owed(inner, stripes[k])
        return result


def _put(prefix: str, state: State) -> State:
    return {f"{prefix}/{name}": tensor for name, tensor in state.items()}


def _take(prefix: str, state: State) -> State:
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in state.items() if name.startswith(f"{prefix}/")}
