"""One worker's side of sums of updates whose results are used some steps later."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.effects import Wait
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient


@dataclass(slots=True)
class _Sum:
    """The sum of one update; `ended` is open when `contribution` is known."""

    started: int
    ended: Latch = field(default_factory=Latch)
    contribution: Contribution | None = None


class LateUpdates:
    """An update of step t is summed while the worker takes further steps, and its response taken over after step t + `steps`.

    There is one sum at a time: `sending`, until its response is collected. Up to step `warmup` an exchange waits for its own response.
    Sums are made by messages, as in `topology.collective.delayed`.
    """

    def __init__(self, steps: int, warmup: int, client: CollectiveClient, endpoint: WorkerEndpoint) -> None:
        self.steps = steps
        self.warmup = warmup
        self.client = client
        self.group = endpoint.group
        self.port = endpoint.port
        self.sending: _Sum | None = None
        # the other sums are made only when a response has been collected, and so between two sums of updates
        self.offers = Offers(late=self if steps else None, collective=client if self.group.size > 1 else None)

    @property
    def under_way(self) -> bool:
        return self.sending is not None

    def due(self, clock: int) -> bool:
        return self.sending is not None and clock >= self.sending.started + self.steps

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        assert self.sending is None, "an exchange checks that its schedule leaves the time"
        self.sending = mine = _Sum(clock)
        if not self.steps or clock <= self.warmup:
            await self._sum(mine, value, clock, rates)
            return await self.collect()
        await self.port.spawn(f"step {clock}", self._sum(mine, value, clock, rates))
        return ApplyContributions([])

    async def _sum(self, mine: _Sum, value: Tensor, clock: int, rates: tuple[float, ...]) -> None:
        mine.contribution = Contribution((await self.client.aggregate(value, clock)).total, self.group.size, rates=rates)
        mine.ended.open()

    async def collect(self) -> Response:
        assert self.sending is not None, "something was sent"
        await Wait(self.sending.ended)
        contribution, self.sending = self.sending.contribution, None
        assert contribution is not None, "the latch opens when it has arrived"
        return ApplyContributions([contribution])

    async def finish(self) -> Response:
        return ApplyContributions([])  # all has been collected

    async def drain(self, step: int) -> str:
        if self.sending is not None:
            await Wait(self.sending.ended)
        return ""

    def export(self) -> StateTree:
        held = None
        if self.sending is not None and (contribution := self.sending.contribution) is not None:
            held = (self.sending.started, contribution.value, contribution.count, contribution.rates)
        return {"sum": held, "client": self.client.export()}

    def restore(self, state: StateTree) -> None:
        self.client.restore(state["client"])
        self._restore_sums(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """With the sums that have come: they are of all workers of then, and equal at each."""
        self.client.take_over(state["client"], own)
        self._restore_sums(state)

    def inherit(self, residual: Tensor) -> None:
        self.client.inherit(residual)

    def _restore_sums(self, state: StateTree) -> None:
        self.sending = None
        if state["sum"] is not None:
            started, value, count, rates = state["sum"]
            self.sending = _Sum(started, contribution=Contribution(value, count, 0, rates))
            self.sending.ended.open()

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
