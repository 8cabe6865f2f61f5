"""Samples travel: each batch is sent to the next worker on a ring after it was used."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NoReturn

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, Source, Stream, unfollowed
from polyrhythm.errors import DataError
from polyrhythm.shuffle.dealing import count, loading, parts

Samples = tuple[Tensor, ...]
_LOST = "data/lost"


@dataclass(frozen=True, slots=True)
class RingShuffle:
    """Samples are distributed once; each used batch is sent to the next worker on a ring (GossipGraD; Daily et al., 2018, 5.2).

    In as many epochs as there are workers, every worker sees all these samples; up to P - 1 samples that were left over are never
    used. When a worker is lost the samples stay from then on where they are. Batches must be tuples of tensors.
    """

    takes: ClassVar[frozenset[ControlledSetting]] = frozenset()

    @property
    def sends(self) -> bool:
        """True: each batch is sent after its use."""
        return True

    def feed(self, group: Group, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Travelling(group, port, perform, follow)

    def stream(self, stream: Stream, group: Group, number: int, batch_size: int) -> NoReturn:
        """Raises DataError: the samples of a stream are not kept."""
        raise DataError(
            "RingShuffle distributes samples once and then sends them around a ring, which is impossible for a stream without a length: "
            "give a data set with a length, or compose the strategy with shuffle=GlobalShuffle()."
        )

    def sharded(self, source: ShardedSource, group: Group, totals: BackgroundSums, batch_size: int) -> NoReturn:
        """Raises DataError: each worker reads only its own shards."""
        raise DataError(
            f"RingShuffle distributes samples once and then sends them around a ring, but each worker reads its own shard of a "
            f"{type(source).__name__}: give a data set with a length, or compose the strategy with shuffle=GlobalShuffle()."
        )

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """The samples that the previous worker on the ring had in the previous epoch. The loop loads them itself, so nothing is sent."""
        _refuse_redrawing(order)
        first = (group.rank - number) % group.size
        return order.indices(group.seed, 0)[first : len(order) - len(order) % group.size : group.size]


class _Travelling:
    """`held` is the queue of batches at this worker. All workers have equally many, of equal sizes at equal places.

    `awaited` is the topic of the batch that is on its way here; none is when the ring is `broken`.
    """

    def __init__(self, group: Group, port: Port, perform: Perform, follow: Follow) -> None:
        self.group = group
        self.port = port
        self.perform = perform
        self.held: deque[Samples] = deque()
        self.batch_size = 0
        self.passed = 0
        self.follow = follow
        self.awaited = ""
        self.broken = False

    def count(self, source: Source, batch_size: int) -> int:
        return count(source, self.group, batch_size)

    def epoch(self, source: Source, number: int, batch_size: int) -> Iterator[Batch]:
        if not self.held:
            self._deal(source, number, batch_size)
        if batch_size != self.batch_size:
            raise DataError(
                f"batch_size={batch_size} after {self.batch_size}: RingShuffle distributes samples once, in batches that are then sent on "
                f"unchanged; keep the size, or use GlobalShuffle."
            )
        for _ in range(len(self.held)):
            self.held.rotate(-1)  # a batch whose epoch is left early has had its turn, but stays
            turn = self.held[-1]
            yield _samples(turn), tuple(part.clone() for part in turn)  # copies, because the training function may write to them
            self.held.append(self.perform(self._pass_on(self.held.pop())))

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        whole = batches == self.count(source, batch_size)
        for _ in islice(self.epoch(source, number, batch_size), None if whole else batches):
            pass  # each batch that another follows is sent on

    def _deal(self, source: Source, number: int, batch_size: int) -> None:
        _refuse_redrawing(source.order)
        dealt = parts(source, self.group, number, batch_size)
        self.held.extend(_tensors(batch) for _, batch in source.load(dealt, loading(self.group, number)))
        self.batch_size = batch_size
        self.follow(_LOST)
        self.perform(self._begin())

    async def _begin(self) -> None:
        await self.port.spawn("ring", self._watch())

    async def _watch(self) -> None:
        """Break the ring for all workers when any one is lost: otherwise workers would wait for neighbours that themselves wait."""
        await self.port.receive(_LOST)
        self.broken = True
        if self.awaited:
            await self.port.send(self.port.name, Message(self.awaited))

    async def _pass_on(self, batch: Samples) -> Samples:
        if self.group.size == 1 or self.broken:
            return batch
        topic, rank, workers = f"data/{self.passed}", self.group.rank, self.group.size
        self.passed += 1
        await self.port.send(self.group.members[(rank + 1) % workers], Message(topic, tensors=tuple(t.contiguous() for t in batch)))
        self.awaited = topic
        delivery = await self.port.receive(topic, self.group.members[(rank - 1) % workers])
        assert delivery is not None
        self.awaited = ""
        return batch if delivery.sender == self.port.name else delivery.message.tensors


def _samples(batch: Samples) -> int:
    return len(batch[0]) if batch and batch[0].dim() else 1


def _tensors(batch: Any) -> Samples:
    if isinstance(batch, (list, tuple)) and all(isinstance(part, Tensor) for part in batch):
        return tuple(batch)
    raise DataError("RingShuffle sends samples between workers, so a batch must be a tuple of tensors; use GlobalShuffle for other data.")


def _refuse_redrawing(order: Order) -> None:
    if order.redraws:
        raise DataError(
            "RingShuffle distributes samples once and then sends them around a ring, so a sampler that draws others later is refused: "
            "leave the sampler out, or compose the strategy with shuffle=GlobalShuffle()."
        )
