"""Everybody asks, everybody answers, nobody is special."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.names import worker
from polyrhythm.pieces.answers import Adopt, Answer, Move, Step
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.terms import DIFFERENCES, Manner, Subject
from polyrhythm.pieces.topology import Channel, InPlace, Opening, ServerEndpoint, Terms, WorkerEndpoint
from polyrhythm.tensors import State
from polyrhythm.topology.algorithm import Algorithm
from polyrhythm.topology.broadcast import broadcast
from polyrhythm.topology.circle import Circle
from polyrhythm.topology.ring import Ring


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Collective questions among the workers alone; `algorithm` says how sums are made: Ring, Direct, Tree, Butterfly, Fastest."""

    algorithm: Algorithm = field(default_factory=Ring)

    @property
    def accepts(self) -> frozenset[Subject]:
        """Differences; the mean of weights is the mean of what was done to equal weights."""
        return DIFFERENCES

    @property
    def manner(self) -> Manner:
        """Collectively."""
        return Manner.COLLECTIVE

    def workers(self, available: int) -> int:
        """All."""
        return available

    def servers(self, workers: int) -> int:
        """None."""
        return 0

    def channel(self, terms: Terms, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Equal(Circle(self.algorithm, terms.codec, endpoint), terms, endpoint)

    def serve(self, terms: Terms, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """There is no server."""
        raise NotImplementedError("AllReduce has no server")

    def witnesses(self, workers: int) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [worker(0)]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class _Equal:
    """One worker in one circle with all others."""

    buckets = None

    def __init__(self, circle: Circle, terms: Terms, endpoint: WorkerEndpoint) -> None:
        self.circle = circle
        self.group = endpoint.group
        self.port = endpoint.port
        # one worker alone has none: what gets no gradient from anyone keeps none, and its optimizer passes over it
        self.scale = terms.merge.scale(self.group.size) if terms.codec.verbatim and self.group.size > 1 else None

    @property
    def in_place(self) -> InPlace | None:
        return None if self.scale is None else self

    async def establish(self, opening: Opening) -> Answer:
        self.circle.open(opening.holder.layout)
        return Adopt(await broadcast(self.port, self.group, opening.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        return Move([Contribution(await self.circle.sum(value), self.group.size, rates=rates)])

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Answer:
        assert self.scale is not None, "asked for through `in_place`"
        if not await self.circle.reduce_in_place(parts, self.group.size):
            total = await self.circle.sum(torch.cat(list(parts)).cpu())
            for part, summed in zip(parts, torch.split(total, [part.numel() for part in parts]), strict=True):
                torch.div(summed.to(part.device), self.group.size, out=part)
        return Step(self.scale)

    async def finish(self) -> Answer:
        return Move([])

    def states(self) -> list[tuple[State, Tensor]]:
        return [self.circle.owed()]
