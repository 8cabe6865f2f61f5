"""What a merge is: what contributions do to the weights, where they are held (at every replica, or at a server)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Protocol, cast

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits, Payload
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one worker sent, or the sum of what `count` workers sent.

    `staleness` is the number of merges since the weights were read that it was computed on; `rates` are the learning rates
    of the sender's optimizer, one for each of its parameter groups. `sender` is the worker (empty for a sum), `clock` its step, and
    `samples` what it was computed on, where the merge weighs by them and the sender has counted; else 0.
    """

    value: Tensor
    count: int = 1
    staleness: int = 0
    rates: tuple[float, ...] = ()
    sender: str = ""
    clock: int = 0
    samples: float = 0.0

    @property
    def part(self) -> None:
        """It is whole."""


class AnyContribution(Protocol):
    """What a merge sees of a contribution. Read `value` once: it may be decoded anew each time."""

    @property
    def value(self) -> Tensor:
        """What was sent (numel,)."""

    @property
    def part(self) -> tuple[Tensor, Tensor] | None:
        """Where the range begins (1,) that is all of `value` that is not NO_GRADIENT, and its values; None where it is no range."""

    @property
    def count(self) -> int:
        """By how many workers."""

    @property
    def staleness(self) -> int:
        """How many merges after its weights were read."""

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates of the sender's parameter groups."""

    @property
    def sender(self) -> str:
        """The worker that sent it; empty for a sum over several."""

    @property
    def clock(self) -> int:
        """The sender's step; 0 for a sum."""

    @property
    def samples(self) -> float:
        """How many samples it was computed on; 0 where that is not known."""


@dataclass(slots=True)
class EncodedContribution:
    """A contribution encoded as it came: many of them may wait, and decoded they would fill the memory.

    Not frozen, because a thousand workers that send all to all make a million of them a step.
    """

    packet: Packet
    codec: PacketCodec
    layout: Layout
    rates: tuple[float, ...]
    sender: str
    clock: int
    count: int = 1
    staleness: int = 0
    samples: float = 0.0

    @property
    def value(self) -> Tensor:
        """Decoded anew."""
        return self.codec.decode(self.packet, self.layout)

    @property
    def part(self) -> tuple[Tensor, Tensor] | None:
        """The packet itself, where the codec sends ranges."""
        return (self.packet[0], self.packet[1]) if self.codec.traits.ranged else None


@dataclass(frozen=True, slots=True)
class Direction:
    """What a group of contributions comes to: `total` (numel,) is their sum, each with its weight, and `weight` the sum of the weights.

    An optimizer takes their average and has its learning rate multiplied by `scale`: under Adam and its kin a gradient that is twice as
    large moves the weights no further, a rate that is twice as large does. Without a learning rate, weights move by total / divisor.
    `state` is what a merge that has a state will find as `context.state` next time.
    """

    total: Tensor
    weight: float
    divisor: float
    state: State = field(default_factory=dict)

    def average(self) -> Tensor:
        """The weighted mean (numel,), a new tensor."""
        return self.total / self.weight

    def move(self) -> Tensor:
        """What plain subtraction takes (numel,), a new tensor: the average times `scale`, but rounded once."""
        return self.total / self.divisor

    @property
    def scale(self) -> float:
        """By what learning rates are multiplied."""
        return self.weight / self.divisor


def rates_of(contributions: Sequence[AnyContribution]) -> tuple[float, ...]:
    """The learning rates of a group: the mean over contributions, and exactly the common ones where all have the same."""
    rates = [contribution.rates for contribution in contributions]
    if all(each == rates[0] for each in rates):
        return rates[0]
    counts = [contribution.count for contribution in contributions]
    return tuple(sum(map(mul, counts, each)) / sum(counts) for each in zip(*rates, strict=True))


class Rule(Protocol):
    """An optimizer that runs where the weights are held: turns a direction (numel,) into a step to subtract."""

    @property
    def takes_rate(self) -> bool:
        """Whether its steps depend on the learning rate of the senders' optimizers, of which it sees one for all parameters."""

    @property
    def takes_norm(self) -> bool:
        """Whether its steps depend on how long a direction is: clipping its norm means nothing to one that takes signs."""

    def among(self, workers: int) -> Rule:
        """The same optimizer for the contributions of so many workers; itself, where their number does not matter."""

    def initial(self, layout: Layout) -> State:
        """The state before the first step."""

    def step(self, direction: Tensor, state: State, rate: float) -> tuple[Tensor, State]:
        """The step (numel,) and the next state; `rate` is the learning rate of the senders' first parameter group.

        The model_state multiplies the step by the direction's scale, so it must be linear in the rule's learning rate.
        """


class Merge(Protocol):
    """How contributions change weights: a `DifferenceMerge`, a `WeightMerge`, or both, by its traits."""

    @property
    def traits(self) -> MergeTraits:
        """What it declares of itself."""


class DifferenceMerge(Merge, Protocol):
    """A merge of gradients or updates. Directions have the sign of a gradient: weights move against them."""

    @property
    def rule(self) -> Rule | None:
        """Its own optimizer; None leaves the step to the user's (gradients) or to plain subtraction (updates)."""

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """One direction from contributions that are merged at once."""


class WeightMerge(Merge, Protocol):
    """A merge of weights."""

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        """My weights after an exchange with others; a new tensor."""


def combining(merge: Merge) -> DifferenceMerge:
    """`merge` as one of differences, which composition has made sure of."""
    assert merge.traits.payloads & DIFFERENCES, f"{merge} was composed with gradients or updates"
    return cast(DifferenceMerge, merge)


def mixing(merge: Merge) -> WeightMerge:
    """`merge` as one of weights, which composition has made sure of."""
    assert Payload.WEIGHTS in merge.traits.payloads, f"{merge} was composed with weights"
    return cast(WeightMerge, merge)


def rule_of(merge: Merge) -> Rule | None:
    """The optimizer of a merge; None where it has none, or merges weights only."""
    return combining(merge).rule if merge.traits.payloads & DIFFERENCES else None


def scale_of_all(merge: Merge, context: ExchangeContext) -> float | None:
    """By what learning rates are multiplied when the gradients of all workers, none of them late, are averaged.

    None where `merge` does something else with them.
    """
    nothing = Contribution(torch.zeros(0), context.group.size)
    return combining(merge).combine([nothing], context).scale if merge.traits.averages else None


_LATE = 2**40


def keeps_rates(merge: Merge, context: ExchangeContext) -> bool:
    """Whether the mean of all workers' gradients is stepped on with the learning rates as they are, at the first step and later."""
    return all(scale_of_all(merge, replace(context, clock=clock)) == 1 for clock in (0, _LATE))
