"""Protocol of merges: the change of the weights by contributions, where the weights are held (at every replica, or at a server).

Members are in `merge`. A `ModelState` calls them, at a worker or at a server; topologies make the contributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, mul
from typing import Protocol, cast

from torch import Tensor

from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits, Payload
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Contribution:
    """The value that one worker sent, or the sum of the values of `count` workers.

    `staleness` is the number of merges since the weights were read that it was computed on; `rates` are the learning rates of the sender's
    optimizer, one for each of its parameter groups. `sender` is the worker (empty for a sum), `clock` its step, and `samples` the number of
    samples it was computed on, where the merge weighs by them and the sender has counted; else 0.
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
        """None, because the value is whole."""


class AnyContribution(Protocol):
    """A contribution as a merge sees it. Read `value` once: it may be decoded anew each time."""

    @property
    def value(self) -> Tensor:
        """The value that was sent (numel,)."""

    @property
    def part(self) -> tuple[Tensor, Tensor] | None:
        """The start (1,) and the values of the one range of `value` that is not NO_GRADIENT; None where it is no range."""

    @property
    def count(self) -> int:
        """The number of workers whose values it sums."""

    @property
    def staleness(self) -> int:
        """The number of merges since its weights were read."""

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
        """The number of samples it was computed on; 0 where that is not known."""


@dataclass(slots=True)
class EncodedContribution:
    """A contribution that stays encoded: many of them may wait, and decoded they would fill the memory.

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
        """The value, decoded anew at each access."""
        return self.codec.decode(self.packet, self.layout)

    @property
    def part(self) -> tuple[Tensor, Tensor] | None:
        """The packet itself, where the codec sends ranges."""
        return (self.packet[0], self.packet[1]) if self.codec.traits.ranged else None


@dataclass(frozen=True, slots=True)
class Direction:
    """The direction of a group of contributions: `total` (numel,) is their weighted sum, and `weight` the sum of the weights.

    An optimizer takes their average and has its learning rate multiplied by `scale`: under Adam and similar optimizers a gradient that is
    twice as large moves the weights no further, a rate that is twice as large does. Without a learning rate, weights move by total /
    divisor. `state` is what a merge that has a state will find as `context.state` next time.
    """

    total: Tensor
    weight: float
    divisor: float
    state: State = field(default_factory=dict)

    def average(self) -> Tensor:
        """The weighted mean (numel,), a new tensor."""
        return self.total / self.weight

    def move(self) -> Tensor:
        """The step of plain subtraction (numel,), a new tensor: the average times `scale`, but rounded once."""
        return self.total / self.divisor

    @property
    def scale(self) -> float:
        """The factor of the learning rates."""
        return self.weight / self.divisor


_RATES, _COUNT = attrgetter("rates"), attrgetter("count")


def rates_of(contributions: Sequence[AnyContribution]) -> tuple[float, ...]:
    """The learning rates of a group: the mean over contributions, and exactly the common ones where all have the same."""
    rates: list[tuple[float, ...]] = list(map(_RATES, contributions))
    if rates.count(rates[0]) == len(rates):
        return rates[0]
    counts = list(map(_COUNT, contributions))
    return tuple(sum(map(mul, counts, each)) / sum(counts) for each in zip(*rates, strict=True))


class Rule(Protocol):
    """An optimizer that runs where the weights are held: turns a direction (numel,) into a step to subtract."""

    @property
    def takes_rate(self) -> bool:
        """True if its steps depend on the learning rate of the senders' optimizers, of which it sees one for all parameters."""

    @property
    def takes_norm(self) -> bool:
        """True if its steps depend on the norm of a direction: clipping has no effect on a rule that takes signs."""

    def initial(self, layout: Layout) -> State:
        """The state before the first step."""

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        """The step (numel,) and the next state; `rate` is the learning rate of the first parameter group of the `workers` that contribute.

        The `ModelState` multiplies the step by the direction's scale, so it must be linear in the rule's learning rate.
        """


class Merge(Protocol):
    """Changes weights by contributions: a `DifferenceMerge`, a `WeightMerge`, or both, by its traits."""

    @property
    def traits(self) -> MergeTraits:
        """The properties that composition checks."""


class DifferenceMerge(Merge, Protocol):
    """A merge of gradients or updates. Directions have the sign of a gradient: weights move against them."""

    @property
    def rule(self) -> Rule | None:
        """The merge's own optimizer; None leaves the step to the user's (gradients) or to plain subtraction (updates)."""

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """One direction from contributions that are merged at once."""


class AveragingMerge(DifferenceMerge, Protocol):
    """A merge whose traits have `averages`."""

    def scale(self, step: int, workers: int) -> float:
        """The factor of the learning rates at `step`, from 1, when the gradients of so many workers, none of them late, are averaged."""


class WeightMerge(Merge, Protocol):
    """A merge of weights, as gossip needs it."""

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        """This worker's weights after an exchange with others; a new tensor."""


def combining(merge: Merge) -> DifferenceMerge:
    """`merge` as a merge of differences; composition has ensured that it is one."""
    assert merge.traits.payloads & DIFFERENCES, f"{merge} was composed with gradients or updates"
    return cast(DifferenceMerge, merge)


def mixing(merge: Merge) -> WeightMerge:
    """`merge` as a merge of weights; composition has ensured that it is one."""
    assert Payload.WEIGHTS in merge.traits.payloads, f"{merge} was composed with weights"
    return cast(WeightMerge, merge)


def rule_of(merge: Merge) -> Rule | None:
    """The optimizer of a merge; None where it has none, or merges weights only."""
    return combining(merge).rule if merge.traits.payloads & DIFFERENCES else None


def scale_of_all(merge: Merge, step: int, workers: int) -> float | None:
    """The factor of the learning rates at `step` when the gradients of all workers, none of them late, are averaged.

    None where `merge` does something else with them.
    """
    if not merge.traits.averages:
        return None
    return workers / (workers / cast(AveragingMerge, merge).scale(step, workers))  # the bits of `Direction.scale`


LATE = 2**40
"""A step after every warm-up."""


def keeps_rates(merge: Merge, workers: int) -> bool:
    """True if the optimizer steps on the mean of all workers' gradients with unchanged learning rates, at the first step and later."""
    return all(scale_of_all(merge, step, workers) == 1 for step in (0, LATE))
