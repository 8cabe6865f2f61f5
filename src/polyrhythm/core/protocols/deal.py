"""The division of an epoch's samples among workers, also where workers leave and join in its midst: pure values.

Feeds of shuffles compute the batches of a worker from a `Deal`; `Data.regroup` ends one, and the next begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, islice
from typing import NamedTuple, Protocol

Spans = tuple[tuple[int, int], ...]
"""Positions in the order of an epoch: disjoint ranges from a first to below a last, in order."""

ENDLESS = 2**62
"""The length of a stream whose end is not known."""


class DealtPart(NamedTuple):
    """A batch as a range of the samples that are dealt, and the factor that makes the mean over workers one over samples."""

    start: int
    stop: int
    weight: float = 1.0


class DealtBatch(NamedTuple):
    """The positions of a batch in the order of the epoch, and its weight in a mean over workers."""

    spans: Spans
    weight: float = 1.0


class DealRule(Protocol):
    """A way to cut samples into equally many batches for each member. Settings are frozen; members are in `shuffle.dealing`."""

    def count(self, samples: int, members: int) -> int:
        """The number of batches of each member."""

    def parts(self, samples: int, rank: int, members: int) -> Iterator[DealtPart]:
        """The batches of the member of `rank`; lazily, since the number of samples of a stream is not known."""

    def behind(self, samples: int, held: int, fewer: int, members: int) -> int:
        """The size of a batch of each of the `fewer` members that have none in a round of which others hold `held` samples.

        `samples` are left. The size is at least 1, also if they do not suffice.
        """

    def weight(self, size: int, total: int, members: int) -> float:
        """The weight of a batch of `size` samples in a round of `total`."""

    def rounds(self, rest: Spans) -> tuple[Spans, Spans]:
        """What is left of an epoch, in two parts: that which is dealt first, and that which is dealt last."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class EndedDeal:
    """A deal that ended when its members changed: by member, the batches `used`, and those `held`, handed out for a step still to come.

    `used` is None for a member whose pass was over: what it left is not dealt anew. `read` is, by member, the number of samples that were
    taken from its shard, where the samples in its batches came from others too.
    """

    members: tuple[str, ...]
    used: tuple[int | None, ...]
    held: tuple[int, ...]
    read: tuple[int, ...] = ()


class RoundBehind(NamedTuple):
    """A round in which some members hold a batch already: the size of a batch of each of the others, and of all together."""

    size: int
    total: int
    fewer: tuple[int, ...]


@dataclass(frozen=True)
class Deal:
    """Who of `members` has which batches of an epoch of `length`: those `held` when it began, and the samples left, cut by `rule`.

    A member that held fewer than another gets as many first, of the samples `early`, so that all have equally many batches; then come those
    of `rest`. Where `early` is too short, the last samples of the epoch are `repeated`, since workers that act together take equally many
    steps.
    """

    members: tuple[str, ...]
    held: tuple[tuple[Spans, ...], ...]
    behind: tuple[RoundBehind, ...]
    early: Spans
    rest: Spans
    rule: DealRule
    length: int

    @staticmethod
    def of(members: tuple[str, ...], held: tuple[tuple[Spans, ...], ...], free: Spans, rule: DealRule, length: int) -> Deal:
        """The deal of the samples at the positions `free`, which nobody has used or holds."""
        left, behind = nsamples(free), []
        for place in range(max(map(len, held))):
            fewer = tuple(rank for rank, batches in enumerate(held) if len(batches) <= place)
            had = sum(nsamples(batches[place]) for batches in held if len(batches) > place)
            size = rule.behind(left, had, len(fewer), len(members)) if fewer else 0
            left = max(0, left - size * len(fewer))
            behind.append(RoundBehind(size, had + size * len(fewer), fewer))
        whole, others = rule.rounds(free)
        early = _Cut((*others, *whole)).at(0, nsamples(free) - left)
        return Deal(members, held, tuple(behind), early, tuple(chain(*rule.rounds(without(free, merged(early))))), rule, length)

    @property
    def count(self) -> int:
        """The number of batches of each member, those included that it holds."""
        return len(self.behind) + self.rule.count(nsamples(self.rest), len(self.members))

    @property
    def repeated(self) -> int:
        """The number of samples that are in a second batch."""
        return sum(each.size * len(each.fewer) for each in self.behind) - nsamples(self.early)

    def batches(self, rank: int) -> Iterator[DealtBatch]:
        """The batches of the member of `rank`, in order."""
        early, start = _Cut(self.early), 0
        for place, (size, total, fewer) in enumerate(self.behind):
            if rank in fewer:
                begin = start + fewer.index(rank) * size
                spans = (*early.at(begin, begin + size), *self._again(begin, begin + size))
            else:
                spans = self.held[rank][place]
            yield DealtBatch(spans, self.rule.weight(nsamples(spans), total, len(self.members)))
            start += size * len(fewer)
        rest = _Cut(self.rest)
        for begin, end, weight in self.rule.parts(nsamples(self.rest), rank, len(self.members)):
            yield DealtBatch(rest.at(begin, end), weight)

    def _again(self, begin: int, end: int) -> Spans:
        """The last samples of the epoch, in place of those from `begin` to `end` that `early` does not have."""
        lacking = range(max(begin, nsamples(self.early)), end)
        return tuple((self.length - 1 - k % self.length, self.length - k % self.length) for k in lacking)


@lru_cache(maxsize=64)
def dealt(length: int, rule: DealRule, members: tuple[str, ...], ended: tuple[EndedDeal, ...] = ()) -> Deal:
    """The deal of `length` samples to `members` after those that have ended: of all that nobody has used, or holds and is still there."""
    if not ended:
        return Deal.of(members, ((),) * len(members), ((0, length),), rule, length)
    last = ended[-1]
    before = dealt(length, rule, last.members, ended[:-1])
    taken: list[tuple[int, int]] = []
    kept: dict[str, tuple[Spans, ...]] = {}
    for rank, (name, used, held) in enumerate(zip(last.members, last.used, last.held, strict=True)):
        count = before.count if used is None else used
        batches = [batch.spans for batch in islice(before.batches(rank), count + (held if name in members else 0))]
        taken += chain.from_iterable(batches)
        kept[name] = tuple(batches[count:])
    if None in last.used and length < ENDLESS:  # those whose pass is over have left out what was too little for all
        going = [rank for rank, used in enumerate(last.used) if used is not None]
        free = merged(span for rank in going for batch in before.batches(rank) for span in batch.spans)
    else:
        free = merged([*before.early, *before.rest, *(span for batches in before.held for spans in batches for span in spans)])
    return Deal.of(members, tuple(kept.get(name, ()) for name in members), without(free, merged(taken)), rule, length)


class _Cut:
    """Ranges of the samples at `spans`, counted from the first of them."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.ends = list(accumulate(stop - start for start, stop in spans))

    def at(self, begin: int, end: int) -> Spans:
        """The positions of the samples from `begin` to below `end`, as far as there are any."""
        found, place = [], bisect_right(self.ends, begin)
        while begin < end and place < len(self.spans):
            stop = self.spans[place][1]
            first = stop - (self.ends[place] - begin)
            last = min(stop, first + end - begin)
            found.append((first, last))
            begin, place = begin + last - first, place + 1
        return tuple(found)


def nsamples(spans: Iterable[tuple[int, int]]) -> int:
    """The number of positions."""
    return sum(stop - start for start, stop in spans)


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """All positions of `spans`, once and in order."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return tuple(found)


def without(spans: Spans, taken: Spans) -> Spans:
    """The positions of `spans` that are not in `taken`; both are in order."""
    found, place = [], 0
    for start, stop in spans:
        while place < len(taken) and taken[place][1] <= start:
            place += 1
        at = place
        while at < len(taken) and taken[at][0] < stop:
            if start < taken[at][0]:
                found.append((start, taken[at][0]))
            start, at = max(start, taken[at][1]), at + 1
        if start < stop:
            found.append((start, stop))
    return tuple(found)


def chosen(order: Sequence[int], spans: Spans) -> list[int]:
    """The samples of `order` at the positions of `spans`."""
    if len(spans) == 1:
        [(start, stop)] = spans
        return list(order[start:stop])
    return [sample for start, stop in spans for sample in order[start:stop]]
