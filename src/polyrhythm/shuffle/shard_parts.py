"""Parts of the shards of a source, as workers read them after others have left or joined.

`ShardBatches` reads them for a worker; which parts are whose is a pure function of the deals of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from polyrhythm.core.protocols.deal import EndedDeal
from polyrhythm.core.protocols.sharded import Rows
from polyrhythm.shuffle.rows import length, part, strided

OpenShard = Callable[[int], Iterator[Rows]]
"""Reads the shard of a rank from its beginning."""


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Samples of the shard of `rank` or, if it is None, of `inner` one after the other.

    Without the first `skip` it is every `stride`-th sample from the `offset` on, `most` at most.
    """

    rank: int | None = None
    inner: tuple[ShardPart, ...] = ()
    skip: int = 0
    offset: int = 0
    stride: int = 1
    most: int | None = None

    def read(self, shard: OpenShard) -> Iterator[Rows]:
        """The samples, some at once."""
        rows = shard(self.rank) if self.rank is not None else (each for part in self.inner for each in part.read(shard))
        return picked(rows, self.skip + self.offset, self.stride, self.most)


@dataclass(frozen=True, slots=True)
class ShardShare:
    """What a member reads in a deal: the batches that it held when this began, its `own` shard or the rest of it, and rests of `others`.

    Of its batches, the first `outside` came from others when it held them.
    """

    own: tuple[ShardPart, ...] = ()
    others: tuple[ShardPart, ...] = ()
    held: tuple[ShardPart, ...] = ()
    outside: int = 0

    def after(self, used: int, batch_size: int) -> ShardPart:
        """What is left after so many batches."""
        return ShardPart(inner=(*self.held, *self.own, *self.others), skip=max(0, used - self.outside) * batch_size)


def picked(several: Iterable[Rows], start: int, stride: int, most: int | None = None) -> Iterator[Rows]:
    """Every `stride`-th sample from the number `start` on, `most` at most."""
    if start == 0 and stride == 1 and most is None:
        yield from several
        return
    for rows in several:
        count = length(rows)
        if start < count:
            chosen = strided(rows, start, stride)
            found = length(chosen)
            if most is not None:
                chosen, most = part(chosen, 0, min(most, found)), max(0, most - found)
            yield chosen
            if most == 0:
                return
            start += found * stride
        start -= count


@lru_cache(maxsize=64)
def shares_of(members: tuple[str, ...], ended: tuple[EndedDeal, ...], batch_size: int, repeats: bool) -> Mapping[str, ShardShare]:
    """What each of the present members reads: its own shard, or the rest of it; then rests of the shards of those who have left.

    A member that joins gets such a rest, or shares the shard of another, of which each reads every other sample. Where a source does not
    repeat its order, nobody can read the shards of others.
    """
    if not ended:
        return {name: ShardShare((ShardPart(rank),)) for rank, name in enumerate(members)}
    last = ended[-1]
    before = shares_of(last.members, ended[:-1], batch_size, repeats)
    found, orphans = {name: ShardShare() for name in members}, []
    for rank, (name, used, held) in enumerate(zip(last.members, last.used, last.held, strict=True)):
        rest = before[name].after(used or 0, batch_size)
        if last.read:
            rest = replace(rest, skip=last.read[rank])
        if name not in members:
            orphans += [rest] if used is not None else []
        else:
            outside = before[name].outside
            own = 0 if last.read else max(0, (used or 0) + held - outside) - max(0, (used or 0) - outside)
            kept = (ShardPart(inner=(rest,), most=own * batch_size),) if own else ()
            found[name] = ShardShare((ShardPart(inner=(rest,), skip=own * batch_size),), held=kept, outside=held - own)
    if repeats:
        _hand_over(found, orphans, [name for name in members if name not in last.members])
    return found


def _hand_over(found: dict[str, ShardShare], orphans: list[ShardPart], new: list[str]) -> None:
    """Give away the rests of shards, to those who joined first; who gets none shares the shard of one that has stayed."""
    staying = [name for name in found if name not in new]
    for place, rest in enumerate(orphans):
        name = [*new, *staying][place % len(found)]
        found[name] = replace(found[name], others=(*found[name].others, rest))
    for place, name in enumerate(staying):
        readers = new[len(orphans) + place :: len(staying)]
        own = tuple(ShardPart(inner=found[name].own, offset=offset, stride=1 + len(readers)) for offset in range(1 + len(readers)))
        if readers:
            found[name] = replace(found[name], own=own[:1])
            found |= {reader: ShardShare(own=(each,)) for reader, each in zip(readers, own[1:], strict=True)}
