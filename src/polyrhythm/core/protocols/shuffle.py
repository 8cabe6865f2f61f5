"""Protocol of shuffles: the samples that each worker sees in an epoch, and the way they get to it.

Members are in `shuffle`; a strategy has one. `worker.batches` asks it for a feed (`training.data`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource

Perform = Callable[[Any], Any]
"""Runs a coroutine of the worker's communication side and gives its result (`kernel.job.WorkerContext.perform`)."""

Follow = Callable[[str], None]
"""Requests notices of lost workers under a topic, where the run can continue without one; the text of each is the worker's name."""


def unfollowed(topic: str) -> None:
    """No notices, in a run that ends with the first lost worker."""


Batch = tuple[int, Any]
"""The number of samples, and the batch as the training function gets it."""


class Order(Protocol):
    """The samples of a data set that all workers together see in an epoch, in order."""

    @property
    def redraws(self) -> bool:
        """True if every epoch has new samples, and not the same ones in another order."""

    def __len__(self) -> int:
        """The number of samples of an epoch."""

    def indices(self, seed: int, epoch: int) -> Sequence[int]:
        """The samples of `epoch` (from 0) of a run seeded with `seed`: the same at all workers."""


class Source(Protocol):
    """A data set as a shuffle sees it."""

    @property
    def order(self) -> Order:
        """The samples of an epoch, in order."""

    @property
    def drop_last(self) -> bool:
        """True if a last batch that is smaller than the others is left out."""

    def load(self, parts: Sequence[Sequence[int]], seed: int) -> Iterator[Batch]:
        """One batch of the samples of each of `parts`; random draws in other processes come from `seed`."""


class SampleStream(Protocol):
    """Samples that come one after the other, of unknown number: the same at every worker."""

    @property
    def drop_last(self) -> bool:
        """True if a last batch that is smaller than the others is left out."""

    @property
    def once(self) -> bool:
        """True if a pass continues where the one before stopped, as with an iterator: what was read cannot be read again."""

    def elements(self, seed: int) -> Iterator[Any]:
        """A single pass through the samples; random draws in other processes come from `seed`, those in this one are the shuffle's."""

    def batch(self, samples: Sequence[Any]) -> Batch:
        """`samples` as one batch."""


class Feed(Protocol):
    """One worker's batches of one data set, pass by pass: equally many at every worker."""

    def count(self, source: Source, batch_size: int) -> int:
        """The number of batches of an epoch. Raises DataError for data that cannot be sharded."""

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        """The batches of a pass from the number `first` on; more than 0 only where the workers have changed."""

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        """Set the state to that after `batches` of epoch `number`; if these are `count`, the epoch is complete."""


class TravellingFeed(Feed, Protocol):
    """The feed of a shuffle that sends samples."""

    async def travel(self) -> None:
        """Let the next batch have its turn without being used: send it, and keep what comes in its place."""


class ShardFeed(Protocol):
    """One worker's batches of a source that divides itself: equally many at every worker."""

    def count(self) -> int | None:
        """The number of batches of an epoch, where it is known. Raises DataError for data that cannot be sharded."""

    def epoch(self, deals: PassDeals, taken: int, first: int = 0) -> Iterator[Batch]:
        """The batches of a pass, as of a `Feed`; of these the first `taken` are not used again, and may be empty."""


class Shuffle(Protocol):
    """A way to divide samples among workers. Settings are frozen."""

    @property
    def sends(self) -> bool:
        """True if samples travel between workers: its feeds are `TravellingFeed`s."""

    @property
    def weighs(self) -> bool:
        """True if the batches of a step are of unequal sizes, and count by them in a mean."""

    @property
    def takes(self) -> frozenset[ControlledSetting]:
        """The settings that a controller may change."""

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set; `controls` has the decisions of this worker's controller so far.

        Where samples travel, `follow` requests notices of lost workers.
        """

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        """One worker's batches of one read of a stream: equally many at every worker. Raises DataError if samples cannot stream."""

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> ShardFeed:
        """One worker's batches of a source of which each worker reads a shard. Raises DataError where the shuffle needs other data."""

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        """One worker's samples of a pass, for a loop that has its own loader: equally many at every worker."""
