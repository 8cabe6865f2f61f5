"""One worker, nobody to ask: the baseline."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.names import worker
from polyrhythm.pieces.answers import Answer, Move
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.terms import DIFFERENCES, Manner, Subject
from polyrhythm.pieces.topology import Channel, Opening, ServerEndpoint, Terms, WorkerEndpoint
from polyrhythm.tensors import State


@dataclass(frozen=True, slots=True)
class Alone:
    """Uses one worker, however many there are; what it computes is what the script would compute without Polyrhythm."""

    @property
    def accepts(self) -> frozenset[Subject]:
        """Differences."""
        return DIFFERENCES

    @property
    def manner(self) -> Manner:
        """Collectively, with oneself."""
        return Manner.COLLECTIVE

    def workers(self, available: int) -> int:
        """One."""
        return 1

    def servers(self, workers: int) -> int:
        """None."""
        return 0

    def channel(self, terms: Terms, endpoint: WorkerEndpoint) -> Channel:
        """The worker's side."""
        return _Hermit()

    def serve(self, terms: Terms, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """There is no server."""
        raise NotImplementedError("Alone has no server")

    def witnesses(self, workers: int) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [worker(0)]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class _Hermit:
    buckets = None
    in_place = None

    async def establish(self, opening: Opening) -> Answer:
        return Move([])

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        return Move([Contribution(value, rates=rates)])

    async def finish(self) -> Answer:
        return Move([])

    def states(self) -> list[tuple[State, Tensor]]:
        return []
