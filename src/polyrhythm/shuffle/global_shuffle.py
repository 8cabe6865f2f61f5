"""A new permutation of all samples in every epoch, dealt out in disjoint shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from polyrhythm import rng
from polyrhythm.errors import DataError
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.shuffle import Feed, Perform, Source
from polyrhythm.pieces.terms import Place


@dataclass(frozen=True, slots=True)
class GlobalShuffle:
    """One permutation an epoch, the same at all workers; batch t of worker r is the r-th part of the t-th P · b samples.

    So P workers together see in step t what one worker with a batch of P · b would see (Goyal et al., 2017, section 2.3). The
    tail is dealt out evenly; fewer than P samples an epoch are left out.
    """

    @property
    def sends(self) -> bool:
        """No."""
        return False

    def feed(self, source: Source, place: Place, port: Port, perform: Perform) -> Feed:
        """One worker's feed."""
        return _Dealt(source, place)


def deal(count: int, batch_size: int, place: Place) -> Iterator[slice]:
    """The places in a permutation of `count` samples that make up each of a worker's batches."""
    round_size = place.workers * batch_size
    for start in range(0, count - count % round_size, round_size):
        begin = start + place.rank * batch_size
        yield slice(begin, begin + batch_size)
    if tail := (count % round_size) // place.workers:
        begin = count - count % round_size + place.rank * tail
        yield slice(begin, begin + tail)


def check(source: Source, place: Place, batch_size: int) -> None:
    """Refuse what cannot be shared out."""
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size} is no batch: give the number of samples that each worker takes per step, 1 or more.")
    if len(source) == 0:
        raise DataError("The data set is empty (its length is 0), so there is nothing to train on: check how it was loaded.")
    if len(source) < place.workers:
        raise DataError(
            f"{len(source)} samples cannot be shared out among {place.workers} workers: use at most {len(source)} workers, or more data."
        )


class _Dealt:
    def __init__(self, source: Source, place: Place) -> None:
        self.source = source
        self.place = place

    def epoch(self, number: int, batch_size: int) -> Iterator[Any]:
        check(self.source, self.place, batch_size)
        order = rng.stream(self.place.seed, "shuffle", number).permutation(len(self.source)).tolist()
        for part in deal(len(order), batch_size, self.place):
            yield self.source.batch(order[part])
