"""One worker's side of sums of updates whose results are used some steps later."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.late_sums import LateSums


class LateUpdates:
    """An update of step t is summed while the worker takes further steps, and its response taken over after step t + `steps`.

    There is one sum at a time, until its response is collected. Up to step `warmup` an exchange waits for its own response.
    Sums are made by messages, as in `topology.collective.delayed`.
    """

    def __init__(self, steps: int, warmup: int, sums: LateSums, endpoint: WorkerEndpoint) -> None:
        self.steps = steps
        self.warmup = warmup
        self.client = sums.client
        self.group = endpoint.group
        self.port = endpoint.port
        self.sums = sums
        # the other sums are made only when a response has been collected, and so between two sums of updates
        collective = sums.client if self.group.size > 1 else None
        self.offers = Offers(late=self if steps else None, collective=collective, sums=self.sums)

    @property
    def under_way(self) -> bool:
        return bool(self.sums.held)

    def due(self, clock: int) -> bool:
        return self.under_way and clock >= self.sums.held[0].started + self.steps

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        assert not self.under_way or clock <= self.sums.come, "an exchange checks that its schedule leaves the time"
        self.sums.begin(clock, value, rates)
        response: Response = ApplyContributions([])
        if self.steps and clock > self.warmup:
            await self.sums.resume()
        else:
            if clock > self.sums.come:
                await self.sums.make(self.sums.held[0])
            response = await self.collect()
        self.sums.end()
        return response

    async def collect(self) -> Response:
        return ApplyContributions([await self.sums.oldest()])

    async def finish(self) -> Response:
        return ApplyContributions([])  # all has been collected

    async def drain(self, step: int) -> str:
        await self.sums.drain()
        return ""

    def export(self) -> StateTree:
        return self.sums.export()

    def restore(self, state: StateTree) -> None:
        self.sums.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.sums.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.sums.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.sums.states()
