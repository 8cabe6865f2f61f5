"""Every topology shows codecs and merges the exchange as it is: group, clock and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch
from torch import Tensor
from toy import Toy, network, trained

from polyrhythm.codec import Identity
from polyrhythm.consistency import Asynchronous, BulkSynchronous, LocalSteps
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregation, Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.topology import Topology
from polyrhythm.core.protocols.traits import EVERY_PAYLOAD, CodecTraits, MergeTraits, Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout, State
from polyrhythm.merge import Mean
from polyrhythm.topology import MEMBERS, Alone, Server

WORKERS, STEPS = 4, 3  # 96 samples in batches of 8


@dataclass(frozen=True)
class Sight:
    """What was seen in one exchange."""

    rank: int
    members: tuple[str, ...]
    clock: int
    weights: Tensor

    @staticmethod
    def of(context: ExchangeContext) -> Sight:
        return Sight(context.group.rank, context.group.members, context.clock, context.weights.clone())


@dataclass(frozen=True)
class WatchingCodec:
    """Identity, but it looks at every context."""

    seen: list[Sight] = field(default_factory=list, compare=False)
    traits: ClassVar = CodecTraits(EVERY_PAYLOAD, frozenset({Capability.VALUES}))
    width: ClassVar = 1

    def initial(self, layout: Layout) -> State:
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        assert context.weights.numel() == layout.numel
        self.seen.append(Sight.of(context))
        return Identity().encode(value, layout, state, context)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return Identity().decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        assert context.weights.numel() == layout.numel
        self.seen.append(Sight.of(context))
        return Identity().aggregate(value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return torch.zeros(layout.numel)


@dataclass(frozen=True)
class WatchingMean:
    """Mean, but it looks at every context."""

    seen: list[Sight] = field(default_factory=list, compare=False)
    traits: ClassVar = MergeTraits(EVERY_PAYLOAD)
    rule: ClassVar = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        self.seen.append(Sight.of(context))
        return Mean().combine(contributions, context)

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        self.seen.append(Sight.of(context))
        return Mean().mix(mine, theirs, context)


ASKING = [member for member in MEMBERS if Capability.WAITING not in member.traits.provides and Capability.VALUES in member.traits.provides]
"""There a worker also sends on request, and not while a response is under way."""
SENDING = [member for member in MEMBERS if Capability.VALUES in member.traits.provides]


def start() -> Tensor:
    """The weights with which all begin."""
    rng.seed_everything(5, "worker", 0)
    return torch.cat([p.detach().reshape(-1) for p in network().parameters()])


def strategy(topology: Topology, codec: object, merge: object) -> Strategy:
    rule = Asynchronous() if topology in ASKING else BulkSynchronous()
    gradients = Payload.GRADIENT in topology.traits.payloads
    return Strategy(consistency=rule if gradients else LocalSteps(1, rule), topology=topology, codec=codec, merge=merge)  # type: ignore[arg-type]


@pytest.mark.parametrize("topology", [member for member in SENDING if member != Alone()], ids=repr)
def test_a_codec_sees_the_sender_its_steps_and_its_weights(topology: Topology) -> None:
    codec = WatchingCodec()
    trained(Toy(epochs=1), WORKERS, strategy(topology, codec, Mean()))
    for rank in range(WORKERS):
        mine = [sight for sight in codec.seen if sight.rank == rank]
        parts = len(mine) // STEPS
        if topology in ASKING:
            assert [sight.clock for sight in mine] == sorted(sight.clock for sight in mine)
            continue
        assert [sight.clock for sight in mine] == [clock for clock in range(1, STEPS + 1) for _ in range(parts)]
        assert {sight.members for sight in mine} == {workers(WORKERS)}
        if Payload.GRADIENT in topology.traits.payloads:  # else local steps came before
            seen = torch.cat([sight.weights for sight in mine[:parts]])  # buckets come in another order, or each receiver has all
            assert torch.equal(seen.unique(), start().unique())


@pytest.mark.parametrize(
    "topology",
    [each for each in SENDING if Capability.MERGING in each.traits.provides and Capability.MIXING not in each.traits.requires],
    ids=repr,
)
def test_a_merge_sees_the_group_the_clock_and_the_weights_that_it_changes(topology: Topology) -> None:
    merge = WatchingMean()
    trained(Toy(epochs=1), WORKERS, strategy(topology, Identity(), merge))
    assert merge.seen
    for rank in range(-1, WORKERS):
        clocks = [sight.clock for sight in merge.seen if sight.rank == rank]
        assert clocks == sorted(clocks)
    held = Capability.HELD_ELSEWHERE in topology.traits.provides and Capability.EVERY_PEER not in topology.traits.provides
    assert {sight.rank for sight in merge.seen} == ({-1} if held else set(range(topology.workers(WORKERS))))
    assert {sight.members for sight in merge.seen} == {workers(topology.workers(WORKERS))}


def test_a_server_sees_the_step_that_the_slowest_worker_has_merged() -> None:
    merge = WatchingMean()
    trained(Toy(epochs=1), WORKERS, Strategy(topology=Server(), merge=merge))  # type: ignore[arg-type]
    assert [sight.clock for sight in merge.seen] == list(range(STEPS))
