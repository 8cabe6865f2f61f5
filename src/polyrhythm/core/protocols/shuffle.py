"""What a shuffle is: which samples a worker sees in an epoch, and how they get to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource

Perform = Callable[[Any], Any]
"""Runs a coroutine of the worker's communication side and gives its result (`kernel.job.WorkerContext.perform`)."""

Follow = Callable[[str], None]
"""Has notices of lost workers sent under a topic, where the run can go on without one; the text of each is the worker's name."""


def unfollowed(topic: str) -> None:
    """For a run that ends with the first worker that is lost."""


Batch = tuple[int, Any]
"""How many samples, and what the training function gets of them."""


class Order(Protocol):
    """Which samples of a data set all workers together see in an epoch, and in which order."""

    @property
    def redraws(self) -> bool:
        """Whether every epoch has samples of its own, and not the same ones in another order."""

    def __len__(self) -> int:
        """How many samples an epoch has."""

    def indices(self, seed: int, epoch: int) -> Sequence[int]:
        """The samples of `epoch` (from 0) of a run seeded with `seed`: the same at all workers."""


class Source(Protocol):
    """A data set as a shuffle sees it."""

    @property
    def order(self) -> Order:
        """Which samples an epoch has."""

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is smaller than the others is left out."""

    def load(self, parts: Sequence[Sequence[int]], seed: int) -> Iterator[Batch]:
        """One batch of the samples of each of `parts`; what is drawn at random in other processes comes from `seed`."""


class Stream(Protocol):
    """Samples that come one after the other, of unknown number: the same at every worker."""

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is smaller than the others is left out."""

    def elements(self, seed: int) -> Iterator[Any]:
        """One pass over the samples; what is drawn at random in other processes comes from `seed`, and the shuffle sees to this one."""

    def batch(self, samples: Sequence[Any]) -> Batch:
        """`samples` as one batch."""


class Feed(Protocol):
    """One worker's batches of one data set, epoch by epoch: equally many at every worker."""

    def count(self, source: Source, batch_size: int) -> int:
        """How many batches an epoch has. Raises DataError for what cannot be sharded."""

    def epoch(self, source: Source, number: int, batch_size: int) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0)."""

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        """Set the state to that after `batches` of epoch `number`; if these are `count`, the epoch is complete."""


class ShardFeed(Protocol):
    """One worker's batches of a source that divides itself: equally many at every worker."""

    def count(self) -> int | None:
        """How many batches an epoch has, where that is known. Raises DataError for what cannot be sharded."""

    def epoch(self, number: int, taken: int) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0); the first `taken` are not used again, and may be empty."""


class Shuffle(Protocol):
    """Frozen settings."""

    @property
    def sends(self) -> bool:
        """Whether samples travel between workers."""

    @property
    def takes(self) -> frozenset[ControlledSetting]:
        """What a controller may set."""

    def feed(self, group: Group, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set; `controls` is what is decided at this worker while the run is under way.

        Where samples travel, `follow` is asked for notices of those who are lost.
        """

    def stream(self, stream: Stream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        """One worker's batches of one pass over a stream: equally many at every worker. Raises DataError where samples cannot stream."""

    def sharded(self, source: ShardedSource, group: Group, totals: BackgroundSums, batch_size: int) -> ShardFeed:
        """One worker's batches of a source of which each worker reads a shard. Raises DataError where samples have other ways."""

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """One worker's samples of epoch `number`, for a loop with a loader of its own: equally many at every worker."""
