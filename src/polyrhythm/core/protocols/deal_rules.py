"""Rules that deal samples to workers: in rounds of equal batches and the rest evenly, in contiguous shares, or so many a round.

A `BatchSize` says what a batch size counts, and so which rule a shuffle uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.protocols.deal import DealRule, DealtPart, Spans
from polyrhythm.errors import DataError


class BatchSize(Protocol):
    """What the batch size of data is constant for when workers leave and join. Settings are frozen."""

    def rule(self, batch_size: int, drop_last: bool) -> DealRule:
        """The rule for batches of `batch_size` samples at each worker of a run that begins."""


@dataclass(frozen=True, slots=True)
class PerWorker:
    """Each worker's batches keep their size, so that a step of fewer workers has fewer samples."""

    def rule(self, batch_size: int, drop_last: bool) -> DealRule:
        """In rounds of the present members."""
        return InRounds(batch_size, drop_last)


@dataclass(frozen=True, slots=True)
class PerRound:
    """A step keeps its number of samples, that of the `workers` with which the run began."""

    workers: int

    def rule(self, batch_size: int, drop_last: bool) -> DealRule:
        """In rounds of equal totals."""
        return OfTotal(self.workers * batch_size, drop_last)


@dataclass(frozen=True, slots=True)
class InRounds:
    """Batch t of the member of rank r is the r-th part of the t-th P · b samples; the remainder is divided evenly, or left out.

    Fewer samples than members are left out.
    """

    batch_size: int
    drop_last: bool = False

    def count(self, samples: int, members: int) -> int:
        """The number of batches of each member."""
        rounds, rest = divmod(samples, members * self.batch_size)
        return rounds + (rest >= members and not self.drop_last)

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """The batches of the member of `rank`."""
        round_size = members * self.batch_size
        for start in range(0, samples - samples % round_size, round_size):
            begin = start + rank * self.batch_size
            yield DealtPart(begin, begin + self.batch_size)
        tail = (samples % round_size) // members
        if tail and not self.drop_last:
            begin = samples - samples % round_size + rank * tail
            yield DealtPart(begin, begin + tail)

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """A full batch, or a smaller one where the samples do not suffice and such are not dropped."""
        return self.batch_size if self.drop_last else min(self.batch_size, max(1, samples // fewer))

    def weight(self, size: int, total: int, members: int) -> float:
        """1: every batch counts as much, whatever its size."""
        return 1.0

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """All in the order of the epoch."""
        return rest, ()


@dataclass(frozen=True, slots=True)
class InShares:
    """Each member has a contiguous part, cut into batches; parts differ by one sample at most, and so do the last batches."""

    batch_size: int
    drop_last: bool = False

    def count(self, samples: int, members: int) -> int:
        """The number of batches of each member."""
        return samples // members // self.batch_size if self.drop_last else -(-(samples // members) // self.batch_size)

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """The batches of the member of `rank`."""
        start, stop = share_of(samples, rank, members)
        count = self.count(samples, members)
        for place in range(count):
            begin = start + place * self.batch_size
            last = place == count - 1 and not self.drop_last
            yield DealtPart(begin, stop if last else begin + self.batch_size)

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """As in rounds."""
        return InRounds(self.batch_size, self.drop_last).behind(samples, held, fewer, members)

    def weight(self, size: int, total: int, members: int) -> float:
        """1: every batch counts as much, whatever its size."""
        return 1.0

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """All in the order of the epoch."""
        return rest, ()


@dataclass(frozen=True, slots=True)
class OfTotal:
    """Round t is the t-th `total` samples of the epoch, whatever the number of members, whose batches differ by one sample at most.

    A round that a change has interrupted is completed by those who hold their part of it; what the others had of it comes last.
    """

    total: int
    drop_last: bool = False

    def count(self, samples: int, members: int) -> int:
        """The number of batches of each member. Raises DataError for more members than samples a round."""
        if members > self.total:
            raise DataError(
                f"{members} workers cannot share a step of {self.total} samples: use at most {self.total} workers, or a larger batch size."
            )
        rounds, rest = divmod(samples, self.total)
        return rounds + (rest >= members and not self.drop_last)

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """The batches of the member of `rank`."""
        for place in range(self.count(samples, members)):
            start = place * self.total
            total = min(self.total, samples - start)
            begin, end = share_of(total, rank, members)
            yield DealtPart(start + begin, start + end, self.weight(end - begin, total, members))

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """A part of what is missing in the round."""
        return max(1, min(self.total - held, samples) // fewer)

    def weight(self, size: int, total: int, members: int) -> float:
        """The factor that makes the mean over workers one over samples."""
        return size * members / total

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """Whole rounds in the order of the epoch, and parts of rounds."""
        whole, others = [], []
        for start, stop in rest:
            first, last = -(-start // self.total) * self.total, stop // self.total * self.total
            if first < last:
                whole.append((first, last))
                others += [(start, first), (last, stop)]
            else:
                others.append((start, stop))
        return tuple(whole), tuple(span for span in others if span[0] < span[1])


def share_of(samples: int, rank: int, members: int) -> tuple[int, int]:
    """The first and the end of a contiguous part of `samples`; parts differ by one sample at most."""
    size, rest = divmod(samples, members)
    start = rank * size + min(rank, rest)
    return start, start + size + (rank < rest)


@dataclass(frozen=True, slots=True)
class OfShares:
    """Round t is the t-th `total` samples of the epoch, of which each member has its share, one sample at least."""

    total: int
    shares: tuple[float, ...]
    drop_last: bool = False

    def count(self, samples: int, members: int) -> int:
        """The number of batches of each member. Raises DataError for another number of members, and for more than samples a round."""
        if members != len(self.shares):
            raise DataError(f"There are {len(self.shares)} shares for {members} members: give one for each.")
        return OfTotal(self.total, self.drop_last).count(samples, members)

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """The batches of the member of `rank`."""
        for place in range(self.count(samples, members)):
            start = place * self.total
            total = min(self.total, samples - start)
            sizes = apportioned(total, self.shares)
            begin = start + sum(sizes[:rank])
            yield DealtPart(begin, begin + sizes[rank], self.weight(sizes[rank], total, members))

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """As of a total."""
        return OfTotal(self.total, self.drop_last).behind(samples, held, fewer, members)

    def weight(self, size: int, total: int, members: int) -> float:
        """The factor that makes the mean over workers one over samples."""
        return size * members / total

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """As of a total."""
        return OfTotal(self.total, self.drop_last).rounds(rest)


def apportioned(samples: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in these proportions with that sum, by largest remainders; each is 1 or more, so there are samples for all.

    Examples:
        >>> apportioned(12, (3, 2)), apportioned(3, (100, 1, 1))
        ([7, 5], [1, 1, 1])
    """
    exact = [samples * share / sum(shares) for share in shares]
    sizes = [max(1, int(each)) for each in exact]
    while sum(sizes) != samples:
        step = 1 if sum(sizes) < samples else -1
        able = [k for k, size in enumerate(sizes) if step > 0 or size > 1]
        sizes[max(able, key=lambda k: step * (exact[k] - sizes[k]))] += step
    return sizes


@dataclass(frozen=True, slots=True)
class AsRead:
    """The rounds of `inner`, of what is left in the order of a stream: its end is not known, so nothing can wait until then."""

    inner: DealRule

    def count(self, samples: int, members: int) -> int:
        """As `inner`."""
        return self.inner.count(samples, members)

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """As `inner`."""
        return self.inner.parts(samples, rank, members)

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """As `inner`."""
        return self.inner.behind(samples, held, fewer, members)

    def weight(self, size: int, total: int, members: int) -> float:
        """As `inner`."""
        return self.inner.weight(size, total, members)

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """All in the order of the stream."""
        return rest, ()
