"""Samples travel: each batch is sent to the next worker on a ring after it was used."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, NoReturn

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deal import EndedDeal, chosen
from polyrhythm.core.protocols.deal_rules import InRounds
from polyrhythm.core.protocols.deals import Deals, DealtShare, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, SampleStream, Source, unfollowed
from polyrhythm.errors import DataError
from polyrhythm.shuffle.dealing import check, count

Samples = tuple[Tensor, ...]
_LOST = "data/lost"


@dataclass(frozen=True, slots=True)
class RingShuffle:
    """Samples are distributed once; each used batch is sent to the next worker on a ring (GossipGraD; Daily et al., 2018, 5.2).

    In as many epochs as there are workers, every worker sees all these samples; up to P - 1 samples that were left over are never
    used. When a worker is lost the samples stay from then on where they are; where the run makes a new group of those who are left or have
    joined, what nobody has used in the pass is dealt to them, and the next pass distributes all samples anew. Batches must be tuples of
    tensors.
    """

    takes: ClassVar[frozenset[ControlledSetting]] = frozenset()

    @property
    def weighs(self) -> bool:
        return False

    @property
    def sends(self) -> bool:
        """True: each batch is sent after its use."""
        return True

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Travelling(deals, port, perform, follow)

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> NoReturn:
        """Raises DataError: the samples of a stream are not kept."""
        raise DataError(
            "RingShuffle distributes samples once and then sends them around a ring, which is impossible for a stream without a length: "
            "give a data set with a length, or compose the strategy with shuffle=GlobalShuffle()."
        )

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> NoReturn:
        """Raises DataError: each worker reads only its own shards."""
        raise DataError(
            f"RingShuffle distributes samples once and then sends them around a ring, but each worker reads its own shard of a "
            f"{type(source).__name__}: give a data set with a length, or compose the strategy with shuffle=GlobalShuffle()."
        )

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        """The samples that the previous worker on the ring had in the previous epoch. The loop loads them itself, so nothing is sent."""
        _refuse_redrawing(order)
        indices = order.indices(deals.group.seed, 0)
        for share in _travelled(deals, len(order), InRounds(1), first):
            for batch in islice(share.deal.batches(share.rank), share.start, share.stop):
                yield from chosen(indices, batch.spans)


def _travelled(deals: PassDeals, length: int, rule: InRounds, first: int) -> Iterator[DealtShare]:
    """A worker's batches of a pass, in which those of its first deal have travelled along the ring since the pass `deals.since`."""
    turns = deals.number - deals.since
    if not deals.ended:
        [share] = deals.shares(length, rule, first)
        yield share._replace(rank=(share.rank - turns) % deals.group.size)
        return
    begun, *later = deals.ended
    turns %= len(begun.members)
    used, held = begun.used[turns:] + begun.used[:turns], begun.held[turns:] + begun.held[:turns]
    there = EndedDeal(begun.members[turns:] + begun.members[:turns], used, held)
    yield from replace(deals, ended=(there, *later)).shares(length, rule, first)


class _Travelling:
    """`held` is the queue of batches at this worker. All workers have equally many, of equal sizes at equal places.

    They were dealt in the pass `first`, after so many `changes` of the workers; notices of losses are `watched` since then. `awaited` is
    the topic of the batch that is on its way here; none is when the ring is `broken`. Where the workers change while this one waits, the
    pass ends here, and its other deals follow.
    """

    def __init__(self, deals: Deals, port: Port, perform: Perform, follow: Follow) -> None:
        self.deals = deals
        self.port = port
        self.perform = perform
        self.held: deque[Samples] = deque()
        self.batch_size = 0
        self.first = 0
        self.changes = 0
        self.passed = 0
        self.follow = follow
        self.watched = -1
        self.awaited = ""
        self.broken = False

    def count(self, source: Source, batch_size: int) -> int:
        return count(source, self.deals, batch_size)

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        if deals.ended:
            yield from self._continued(source, deals, batch_size, first)
            return
        if not self.held or self.changes < self.deals.changes:
            self._deal(source, deals, batch_size)
        if self.changes < self.deals.changes:
            return  # they changed while this was waited for
        if batch_size != self.batch_size:
            raise DataError(
                f"batch_size={batch_size} after {self.batch_size}: RingShuffle distributes samples once, in batches that are then sent on "
                f"unchanged; keep the size, or use GlobalShuffle."
            )
        deals.since = self.first
        for _ in range(len(self.held)):
            self.held.rotate(-1)  # a batch whose epoch is left early has had its turn, but stays
            turn = self.held[-1]
            yield _samples(turn), tuple(part.clone() for part in turn)  # copies, because the training function may write to them
            passed = self.perform(self._pass_on(self.held.pop()))
            if self.changes < self.deals.changes:
                return
            self.held.append(passed)

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        if number < self.deals.since:
            return  # the ring was made after it
        whole = batches == self.count(source, batch_size)
        for _ in islice(self.epoch(source, self.deals.plain(number), batch_size), None if whole else batches):
            pass  # each batch that another follows is sent on

    async def travel(self) -> None:
        """Send the batch whose turn it is, and keep the one that comes in its place."""
        self.held.append(await self._pass_on(self.held.popleft()))

    def _continued(self, source: Source, deals: PassDeals, batch_size: int, first: int) -> Iterator[Batch]:
        """The batches of a pass whose members have changed: what nobody has used is loaded, and does not travel."""
        order = source.order.indices(deals.group.seed, deals.since)
        for share in _travelled(deals, len(order), InRounds(batch_size, source.drop_last), first):
            if found := [chosen(order, batch.spans) for batch in share.batches()]:
                yield from ((samples, _tensors(batch)) for samples, batch in source.load(found, deals.loading(share)))

    def _deal(self, source: Source, deals: PassDeals, batch_size: int) -> None:
        check(source, deals.group, batch_size)
        _refuse_redrawing(source.order)
        order = source.order.indices(deals.group.seed, deals.number)
        [share] = deals.shares(len(order), InRounds(batch_size, source.drop_last))
        parts = [chosen(order, batch.spans) for batch in share.batches()]
        self.held = deque(_contiguous(_tensors(batch)) for _, batch in source.load(parts, deals.loading(share)))
        self.batch_size, self.first, self.changes, self.passed, self.broken = batch_size, deals.number, self.deals.changes, 0, False
        if self.watched < self.changes:
            self.watched = self.changes
            self.follow(_LOST)
            self.perform(self._begin())

    async def _begin(self) -> None:
        await self.port.spawn("ring", self._watch())

    async def _watch(self) -> None:
        """Break the ring for all workers when any one is lost: otherwise workers would wait for neighbours that themselves wait."""
        while True:
            await self.port.receive(_LOST)
            self.broken = True
            if self.awaited:
                await self.port.send(self.port.name, Message(self.awaited))

    async def _pass_on(self, batch: Samples) -> Samples:
        group = self.deals.group
        if group.size == 1 or self.broken:
            return batch
        topic, rank, workers = f"data/{self.passed}", group.rank, group.size
        self.passed += 1
        await self.port.send(group.members[(rank + 1) % workers], Message(topic, tensors=batch))
        self.awaited = topic
        delivery = await self.port.receive(topic, group.members[(rank - 1) % workers])
        assert delivery is not None
        self.awaited = ""
        return batch if delivery.sender == self.port.name else delivery.message.tensors


def _samples(batch: Samples) -> int:
    return len(batch[0]) if batch and batch[0].dim() else 1


def _tensors(batch: Any) -> Samples:
    if isinstance(batch, (list, tuple)) and all(isinstance(part, Tensor) for part in batch):
        return tuple(batch)
    raise DataError("RingShuffle sends samples between workers, so a batch must be a tuple of tensors; use GlobalShuffle for other data.")


def _contiguous(batch: Samples) -> Samples:
    """As messages have them: what comes from others is so already."""
    return tuple([part.contiguous() for part in batch])


def _refuse_redrawing(order: Order) -> None:
    if order.redraws:
        raise DataError(
            "RingShuffle distributes samples once and then sends them around a ring, so a sampler that draws others later is refused: "
            "leave the sampler out, or compose the strategy with shuffle=GlobalShuffle()."
        )
