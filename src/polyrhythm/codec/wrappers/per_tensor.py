"""Encode each tensor separately, and small ones by another codec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyrhythm.codec.identity import Identity
from polyrhythm.codec.wrappers.in_step import in_step
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, Encoded, PacketCodec, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.nested import divide, under
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class PerTensor:
    """Encode tensors of two or more dimensions, of `smallest` elements or more, by `inner`, and the others by `rest`.

    Biases are sent as they are, as in Seide et al. (2014) and Vogels et al. (2019). Each tensor has its own state, under
    "<name>/…". A packet: the lengths of all that follows, then the n-th tensors of all packets of `inner` as one, for each n,
    then those of `rest`. The aggregations of all tensors run together, with merged requests.
    """

    inner: Codec
    rest: Codec = field(default_factory=Identity)
    smallest: int = 1

    def __post_init__(self) -> None:
        if self.smallest < 1:
            raise CompositionError(f"PerTensor(smallest={self.smallest}) is not a number of elements: give at least 1.")

    @property
    def traits(self) -> CodecTraits:
        """The payloads that both codecs support, and what they require, and sums; tensors do not share the bytes of a packet."""
        inner, rest = self.inner.traits, self.rest.traits
        return CodecTraits(
            inner.payloads & rest.payloads,
            inner.requires | rest.requires | {Capability.SUMS},
            lossy=inner.lossy or rest.lossy,
            unbiased=inner.unbiased and rest.unbiased,
            transforms=inner.transforms or rest.transforms,
            keeps=inner.keeps or rest.keeps,
            takes=(inner.takes | rest.takes) - {ControlledSetting.NBYTES},
            divides=inner.divides or rest.divides,
            recodes=inner.recodes or rest.recodes,
            recurs=inner.recurs.with_(rest.recurs),
        )

    @property
    def width(self) -> int:
        """The lengths, and the tensors of both codecs."""
        return 1 + sum(codec.width for codec in self._both())

    def initial(self, layout: Layout) -> State:
        return _named((name, self._codec(large).initial(single)) for name, single, large in self._plan(layout))

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """One packet of all tensors' packets."""
        plan, states = self._plan(layout), divide(state, layout.names)
        encodings = [
            packets(self._codec(large)).encode(part, single, states[name], own)
            for part, own, (name, single, large) in zip(*_parts(value, context, plan), plan, strict=True)
        ]
        groups = [[encoded.packet for encoded, (*_, large) in zip(encodings, plan, strict=True) if large is kind] for kind in (True, False)]
        bodies = [_column(group, k) for group, codec in zip(groups, self._both(), strict=True) for k in range(codec.width)]
        lengths = [tensor.numel() for group in groups for packet in group for tensor in packet]
        following = _named((name, encoded.state) for (name, _, _), encoded in zip(plan, encodings, strict=True))
        packet = (torch.tensor(lengths, dtype=torch.int64), *bodies)
        return Encoded(packet, _end_to_end([encoded.sent for encoded in encodings]), following)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The values of each tensor, decoded by its own codec, end to end."""
        plan = self._plan(layout)
        lengths, bodies = packet[0].tolist(), packet[1:]
        decoded: dict[str, Tensor] = {}
        for kind, codec in zip((True, False), self._both(), strict=True):
            group = [(name, single) for name, single, large in plan if large is kind]
            mine, lengths = lengths[: len(group) * codec.width], lengths[len(group) * codec.width :]
            columns = [torch.split(body, mine[k :: codec.width]) for k, body in enumerate(bodies[: codec.width])]
            bodies = bodies[codec.width :]
            for j, (name, single) in enumerate(group):
                decoded[name] = codec.decode(tuple(column[j] for column in columns), single)
        return _end_to_end([decoded[name] for name in layout.names])

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The aggregations of all tensors, with their requests merged."""
        plan, states = self._plan(layout), divide(state, layout.names)
        aggregated = yield from in_step([
            self._codec(large).aggregate(part, single, states[name], own)
            for part, own, (name, single, large) in zip(*_parts(value, context, plan), plan, strict=True)
        ])  # fmt: skip
        following = _named((name, one.state) for (name, _, _), one in zip(plan, aggregated, strict=True))
        return Aggregated(_end_to_end([one.total for one in aggregated]), _end_to_end([one.sent for one in aggregated]), following)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The residual of each tensor, end to end."""
        states = divide(state, layout.names)
        return _end_to_end([self._codec(large).residual(states[name], single) for name, single, large in self._plan(layout)])

    def joined(self, state: State, layout: Layout) -> State:
        states = divide(state, layout.names)
        return _named((name, self._codec(large).joined(states[name], single)) for name, single, large in self._plan(layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        states, plan = divide(state, layout.names), self._plan(layout)
        parts = torch.split(residual, [single.numel for _, single, _ in plan])
        return _named(
            (name, self._codec(large).inherit(states[name], part, single)) for part, (name, single, large) in zip(parts, plan, strict=True)
        )

    def _codec(self, large: bool) -> Codec:
        return self.inner if large else self.rest

    def _both(self) -> tuple[PacketCodec, PacketCodec]:
        return packets(self.inner), packets(self.rest)

    def _plan(self, layout: Layout) -> list[tuple[str, Layout, bool]]:
        """Name, layout, and true if `inner` encodes it, of each tensor."""
        singles = (Layout((name,), (shape,)) for name, shape in zip(layout.names, layout.shapes, strict=True))
        return [(single.names[0], single, len(single.shapes[0]) > 1 and single.numel >= self.smallest) for single in singles]


def _parts(
    value: Tensor, context: ExchangeContext, plan: Sequence[tuple[str, Layout, bool]]
) -> tuple[Sequence[Tensor], Sequence[ExchangeContext]]:
    singles = [single for _, single, _ in plan]
    return torch.split(value, [single.numel for single in singles]), context.parts(singles)


def _named(states: Iterable[tuple[str, State]]) -> State:
    return {key: tensor for name, state in states for key, tensor in under(name, state).items()}


def _column(group: Sequence[Packet], k: int) -> Tensor:
    return _end_to_end([packet[k] for packet in group])


def _end_to_end(tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    return torch.cat(list(tensors)) if tensors else torch.zeros(0)
