"""Sums that come later than the exchanges that begin them: what the channels of `Delayed` have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from polyrhythm.core.kernel.effects import Wait
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Waiting
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient


@dataclass(slots=True)
class LateSum:
    """The sum of what was sent after step `started`, here the `value` (numel,); `ended` is open when the `contribution` is there."""

    started: int
    value: Tensor | None = None
    rates: tuple[float, ...] = ()
    ended: Latch = field(default_factory=Latch)
    contribution: Contribution | None = None
    spawned: bool = False


class LateSums:
    """Sums by `client` whose results were not used yet, `held` with the oldest first; the last that has `come` began after that step.

    After a loss those for whom fewer have come continue from the state of one for whom most have, and what has come for nobody is sent
    again. Where the merge `averages`, a sum of earlier members counts as much as one of those who use it. `done` is the last step whose
    exchange was completed, and `exchanging` the one whose exchange is under way, if there is one.
    """

    def __init__(self, client: CollectiveClient, averages: bool) -> None:
        self.client = client
        self.averages = averages
        self.held: deque[LateSum] = deque()
        self.come = 0
        self.done = 0
        self.exchanging = 0

    def begin(self, clock: int, value: Tensor, rates: tuple[float, ...]) -> None:
        """One more, unless it has come before its exchange was interrupted; the next `resume` or `make` makes it."""
        self.exchanging = clock
        if clock > self.come:
            self.held.append(LateSum(clock, value, rates))

    def end(self) -> None:
        """The exchange that is under way is completed."""
        self.done, self.exchanging = max(self.done, self.exchanging), 0

    def over(self, clock: int) -> bool:
        """True if the exchange of step `clock` is completed, and its sum has come."""
        return clock <= min(self.done, self.come)

    async def resume(self) -> None:
        """Make all that are not under way, each after the one before it."""
        last: LateSum | None = None
        for each in self.held:
            if not each.spawned:
                each.spawned = True
                await self.client.port.spawn(f"step {each.started}", self._follow(each, last))
            last = each

    async def _follow(self, mine: LateSum, last: LateSum | None) -> None:
        since = self.client.port.now()
        if last is not None:
            await Wait(last.ended)
            self.client.port.progressed(self.client.subject, "queue", since)
        await self.make(mine)

    async def make(self, mine: LateSum) -> None:
        """Sum the values (numel,) of all workers."""
        assert mine.value is not None, "a sum that has come is not made again"
        mine.spawned = True
        total = (await self.client.aggregate(mine.value, mine.started)).total
        mine.value, mine.contribution = None, Contribution(total, self.client.group.size, rates=mine.rates)
        self.come = mine.started
        mine.ended.open()

    async def oldest(self) -> Contribution:
        """Wait for the oldest, which is used now."""
        await self.resume()
        await Wait(self.held[0].ended)
        contribution = self.held.popleft().contribution
        assert contribution is not None, "the latch opens when it has arrived"
        return contribution

    async def drain(self) -> None:
        """Wait until all have come."""
        await self.resume()
        for each in self.held:
            await Wait(each.ended)

    def export(self) -> StateTree:
        """The client's state, and the sums that have come."""
        come = [(each.started, each.contribution) for each in self.held if each.contribution is not None]
        sums = [(started, each.value, each.count, each.rates) for started, each in come]
        return {"sums": sums, "come": self.come, "done": self.done, "client": self.client.export()}

    def waiting(self) -> Sequence[Waiting]:
        """What was sent by exchanges that are over, for sums that have not come."""
        held = [each for each in self.held if each.started != self.exchanging]
        return [Waiting(each.started, each.value, each.rates) for each in held if each.value is not None]

    def send_again(self, waiting: Sequence[Waiting]) -> None:
        """Make the sums that have not come where this continues from."""
        self.held.extend(LateSum(each.clock, each.value, each.rates) for each in waiting if each.clock > self.come)

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
        self.come, self.done = state["come"], state["done"]
        for started, value, count, rates in state["sums"]:
            if self.averages and count != (size := self.client.group.size):
                value, count = value * (size / count), size
            self.held.append(found := LateSum(started, contribution=Contribution(value, count, 0, rates), spawned=True))
            found.ended.open()
