"""Samples that travel: after each batch it moves on to the next worker on a ring."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from polyrhythm import rng
from polyrhythm.errors import DataError
from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port, worker
from polyrhythm.pieces.shuffle import Feed, Perform, Source
from polyrhythm.pieces.terms import Place
from polyrhythm.shuffle.global_shuffle import check, deal

Batch = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class RingShuffle:
    """Samples are dealt out once; each batch that has been used is sent to the next in rank (GossipGraD; Daily et al., 2018, 5.2).

    In as many epochs as there are workers, every worker sees all samples that were dealt; the up to P - 1 that were left over stay out
    for good. Batches must be tuples of tensors.
    """

    @property
    def sends(self) -> bool:
        """Yes, after each batch."""
        return True

    def feed(self, source: Source, place: Place, port: Port, perform: Perform) -> Feed:
        """One worker's feed."""
        return _Travelling(source, place, port, perform)


class _Travelling:
    """`held` is the queue of batches at this worker. All workers have equally many, of equal sizes at equal places."""

    def __init__(self, source: Source, place: Place, port: Port, perform: Perform) -> None:
        self.source = source
        self.place = place
        self.port = port
        self.perform = perform
        self.held: deque[Batch] = deque()
        self.batch_size = 0
        self.passed = 0

    def epoch(self, number: int, batch_size: int) -> Iterator[Any]:
        if not self.held:
            self._deal(number, batch_size)
        if batch_size != self.batch_size:
            raise DataError(
                f"batch_size={batch_size} after {self.batch_size}: RingShuffle deals samples out once, in batches that then travel as they "
                f"are; keep the size, or use GlobalShuffle."
            )
        for _ in range(len(self.held)):
            self.held.rotate(-1)  # a batch whose epoch is left early has had its turn, but stays
            yield tuple(part.clone() for part in self.held[-1])  # copies, because the training function may write to them
            self.held.append(self.perform(self._pass_on(self.held.pop())))

    def _deal(self, number: int, batch_size: int) -> None:
        check(self.source, self.place, batch_size)
        order = rng.stream(self.place.seed, "shuffle", number).permutation(len(self.source)).tolist()
        self.held.extend(_tensors(self.source.batch(order[part])) for part in deal(len(order), batch_size, self.place))
        self.batch_size = batch_size

    async def _pass_on(self, batch: Batch) -> Batch:
        if self.place.workers == 1:
            return batch
        topic, rank, workers = f"data/{self.passed}", self.place.rank, self.place.workers
        self.passed += 1
        await self.port.send(worker((rank + 1) % workers), Message(topic, tensors=tuple(t.contiguous() for t in batch)))
        delivery = await self.port.receive(topic, worker((rank - 1) % workers))
        assert delivery is not None
        return delivery.message.tensors


def _tensors(batch: Any) -> Batch:
    if isinstance(batch, (list, tuple)) and all(isinstance(part, Tensor) for part in batch):
        return tuple(batch)
    raise DataError("RingShuffle sends samples between workers, so a batch must be a tuple of tensors; use GlobalShuffle for other data.")
