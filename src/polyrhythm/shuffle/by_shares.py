"""A permutation in every epoch, of which each worker gets as much as its share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, NoReturn

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deal import DealRule
from polyrhythm.core.protocols.deal_rules import OfShares
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Feed, Follow, Order, Perform, SampleStream, unfollowed
from polyrhythm.errors import CompositionError, DataError
from polyrhythm.shuffle.global_shuffle import PermutedFeed


@dataclass(frozen=True, slots=True)
class ByShares:
    """A global shuffle in which worker r has `shares[r]` of each step: machines of unequal speed take equally long.

    On a mesh they are the replicas' shares. Of the P · b samples of a step each has one or more, and gradients count by samples, so that P
    workers together take the step of one with a batch of P · b. Raises CompositionError for shares that are not positive.
    """

    shares: tuple[float, ...]
    takes: ClassVar[frozenset[ControlledSetting]] = frozenset()

    def __post_init__(self) -> None:
        if not self.shares or not all(isfinite(each) and each > 0 for each in self.shares):
            raise CompositionError(
                f"{self!r} has a share that is not positive: give each worker or replica one above 0, such as its speed."
            )

    @property
    def weighs(self) -> bool:
        return True

    @property
    def sends(self) -> bool:
        return False

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return PermutedFeed(deals, SizeByShares(self.shares))

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> NoReturn:
        """Raises DataError: the last samples of a stream are not known, of which each would have its share."""
        raise self._refused("a stream has no length")

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> NoReturn:
        """Raises DataError: the source divides itself."""
        raise self._refused(f"each worker reads its own shard of a {type(source).__name__}")

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        """Raises DataError: a loader of the user's has one batch size."""
        raise self._refused("a loader with worker.sampler has one batch size")

    def _refused(self, why: str) -> DataError:
        return DataError(
            f"{self!r} deals unequal parts of each step, and {why}: give worker.batches a data set with a length, or compose the strategy "
            "with shuffle=GlobalShuffle()."
        )


@dataclass(frozen=True, slots=True)
class SizeByShares:
    """A batch size of which a step has as many as there are shares, divided by them."""

    shares: tuple[float, ...]

    def rule(self, batch_size: int, drop_last: bool) -> DealRule:
        """In rounds of equal totals, each divided by the shares."""
        return OfShares(len(self.shares) * batch_size, self.shares, drop_last)
