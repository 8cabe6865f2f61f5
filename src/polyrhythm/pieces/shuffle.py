"""What a shuffle is: which samples a worker sees in an epoch, and how they get to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from polyrhythm.kernel.port import Port
from polyrhythm.pieces.terms import Place

Perform = Callable[[Any], Any]
"""Runs a coroutine of the worker's communication side and gives its result (`kernel.job.Stage.perform`)."""


class Source(Protocol):
    """A data set as a shuffle sees it."""

    def __len__(self) -> int:
        """How many samples there are."""

    def batch(self, indices: list[int]) -> Any:
        """The samples of `indices` as one batch."""


class Feed(Protocol):
    """One worker's stream of batches of one data set."""

    def epoch(self, number: int, batch_size: int) -> Iterator[Any]:
        """The batches of epoch `number` (from 0): equally many at every worker."""


class Shuffle(Protocol):
    """Frozen settings."""

    @property
    def sends(self) -> bool:
        """Whether samples travel between workers."""

    def feed(self, source: Source, place: Place, port: Port, perform: Perform) -> Feed:
        """One worker's feed."""
