"""The composition of the pieces, refused when they do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from polyrhythm.buffers import MeanBuffers
from polyrhythm.codec import Identity
from polyrhythm.consistency import BulkSynchronous
from polyrhythm.errors import CompositionError
from polyrhythm.kernel.names import worker
from polyrhythm.merge import Mean
from polyrhythm.partition import Replicate
from polyrhythm.pieces.buffers import Buffers
from polyrhythm.pieces.codec import Codec
from polyrhythm.pieces.consistency import Consistency
from polyrhythm.pieces.merge import Merge
from polyrhythm.pieces.shuffle import Shuffle
from polyrhythm.pieces.topology import Agreement, Topology
from polyrhythm.pieces.traits import Pattern
from polyrhythm.shuffle import GlobalShuffle
from polyrhythm.strategy.fit import CHOICES, conflict, payload, remedy
from polyrhythm.topology import AllReduce

_HORIZON = 100_000
"""Steps within which a consistency is expected to have filled any group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way of training together: what a worker holds, when it asks, in which words, who answers, what the response does.

    `shuffle` says which samples a worker sees, and `buffers` with which batch-norm statistics the final weights are saved.
    `name` is what tables call it. Raises CompositionError when the pieces have no payload or no communication pattern in common.

    >>> Strategy().agreement.payload.value
    'gradients'
    """

    consistency: Consistency = field(default_factory=BulkSynchronous)
    topology: Topology = field(default_factory=AllReduce)
    codec: Codec = field(default_factory=Identity)
    merge: Merge = field(default_factory=Mean)
    partition: Replicate = field(default_factory=Replicate)
    shuffle: Shuffle = field(default_factory=GlobalShuffle)
    buffers: Buffers = field(default_factory=MeanBuffers)
    name: str = field(default="custom", compare=False)

    def __post_init__(self) -> None:
        for axis, piece in self._pieces.items():
            if isinstance(piece, (str, type)):
                called = piece if isinstance(piece, str) else piece.__name__
                raise CompositionError(
                    f"{axis}={called!r} is only the name of a piece: give the piece itself, such as {CHOICES[axis][0]!r}."
                )
        reason = conflict(self._pieces)
        if reason is not None:
            raise CompositionError(f"{reason}. {remedy(self._pieces)}")

    @property
    def _pieces(self) -> dict[str, Any]:
        return {"consistency": self.consistency, "topology": self.topology, "codec": self.codec, "merge": self.merge}

    @property
    def pieces(self) -> dict[str, Any]:
        """All of them, by axis."""
        return {**self._pieces, "partition": self.partition, "shuffle": self.shuffle, "buffers": self.buffers}

    def check(self, workers: int) -> None:
        """Refuse a number of workers with which all would come to wait for a group that never fills."""
        group = self.consistency.group(workers)
        spoken = [clock for clock in range(1, _HORIZON) if self.consistency.speaks(clock)][: group - 1]
        if workers % group and spoken and not self.consistency.may_proceed(spoken[-1], 0):
            raise CompositionError(
                f"{self.consistency!r} merges {group} contributions at a time, which do not divide {workers} workers, and lets nobody go "
                f"on until the rest is merged: all would wait for ever. Use a number of workers that {group} divides, or other groups."
            )

    @property
    def agreement(self) -> Agreement:
        """What the pieces have agreed on."""
        agreed = payload(self._pieces)
        assert agreed is not None, "what has nothing in common was refused"
        return Agreement(agreed, self.consistency, self.codec, self.merge)

    @property
    def order_matters(self) -> bool:
        """Whether the result depends on the order in which messages arrive."""
        return self.consistency.order_matters

    @property
    def ends_alike(self) -> bool:
        """Whether all replicas end with the same bits: not where each takes in the others' contributions in an order of its own."""
        return not (self.order_matters and self.topology.pattern is Pattern.PEERS)

    def essential(self, actor: str) -> bool:
        """Whether a run cannot go on without `actor`: servers, worker 0 (it holds the result), and everybody others wait for."""
        return not self.consistency.tolerates_loss or not actor.startswith("worker/") or actor == worker(0)
