"""Sums that come later than the exchanges that begin them: what the channels of `Delayed` have in common."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from polyrhythm.core.kernel.effects import Wait
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient


@dataclass(slots=True)
class LateSum:
    """The sum of what was sent after step `started`; `ended` is open when the `contribution` is there."""

    started: int
    ended: Latch = field(default_factory=Latch)
    contribution: Contribution | None = None


class LateSums:
    """Sums by `client` whose results were not used yet, `held` with the oldest first; so many have `come`.

    Others have `come` as many where they have the same ones: after a loss those with fewer continue from the state of one with most, and
    what nobody has is dropped.
    """

    def __init__(self, client: CollectiveClient) -> None:
        self.client = client
        self.held: deque[LateSum] = deque()
        self.come = 0

    def begin(self, clock: int) -> LateSum:
        """One more, which `make` is to make."""
        self.held.append(found := LateSum(clock))
        return found

    async def make(self, mine: LateSum, value: Tensor, rates: tuple[float, ...]) -> None:
        """Sum the values (numel,) of all workers."""
        total = (await self.client.aggregate(value, mine.started)).total
        mine.contribution = Contribution(total, self.client.group.size, rates=rates)
        self.come += 1
        mine.ended.open()

    async def oldest(self) -> Contribution:
        """Wait for the oldest, which is used now."""
        await Wait(self.held[0].ended)
        contribution = self.held.popleft().contribution
        assert contribution is not None, "the latch opens when it has arrived"
        return contribution

    async def drain(self) -> None:
        """Wait until all have come."""
        for each in self.held:
            await Wait(each.ended)

    def export(self) -> StateTree:
        """The client's state, and the sums that have come."""
        come = [(each.started, each.contribution) for each in self.held if each.contribution is not None]
        sums = [(started, each.value, each.count, each.rates) for started, each in come]
        return {"sums": sums, "come": self.come, "client": self.client.export()}

    def restore(self, state: StateTree) -> None:
        """Restore what was exported."""
        self.client.restore(state["client"])
        self._restore_sums(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """With the sums that have come: they are of all workers of then, and equal at each."""
        self.client.take_over(state["client"], own)
        self._restore_sums(state)

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        self.client.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        """Those of the client."""
        return self.client.states()

    def _restore_sums(self, state: StateTree) -> None:
        self.held.clear()
        self.come = state["come"]
        for started, value, count, rates in state["sums"]:
            self.held.append(found := LateSum(started, contribution=Contribution(value, count, 0, rates)))
            found.ended.open()
