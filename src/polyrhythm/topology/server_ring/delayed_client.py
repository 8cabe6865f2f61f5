"""A worker's side of parameter servers under bounded delay: it continues while messages are under way, as far as its task graph lets it."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.task_graph import TaskGraph
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


class DelayedClient:
    """Each exchange is a task: a push, and a request for newer weights where none is under way. It is finished when all workers' are.

    Weights that have come are taken over after a step, and no optimizer runs meanwhile: the next gradient may be of the same weights.
    Where the servers' last responses do not let the next task start, it waits for their next ones. `asked` is, by server,
    whether a response is on its way, and `fresh` what came before a checkpoint and is not taken over yet.
    """

    offers = NOTHING

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.agreement = agreement
        self.requests = requests
        self.tasks = TaskGraph(agreement.consistency)
        self.asked = [False] * len(requests.names)
        self.fresh: list[Tensor | None] = [None] * len(requests.names)

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.tasks.add(clock)
        idle = [not asked and fresh is None for asked, fresh in zip(self.asked, self.fresh, strict=True)]
        await self.requests.push(value, clock, [Wanted.NEWER if each else Wanted.NOTHING for each in idle], rates)
        self.asked = [asked or each for asked, each in zip(self.asked, idle, strict=True)]
        for k in range(len(self.asked)):
            await self._look(k, timeout=0.0)
        while not self._may_start(clock + 1):
            await self._wait(clock)
        return self._take_over()

    def _may_start(self, task: int) -> bool:
        self.tasks.finish_through(int(min(*self.requests.clocks, task - 1)))
        return self.tasks.may_start(task)

    async def _wait(self, clock: int) -> None:
        """Wait for the servers that are behind; what came is not in the anchor yet, so newer weights are requested whole."""
        late = [not self.agreement.conditions.may_proceed(clock, known) for known in self.requests.clocks]
        missing = [each and not asked for each, asked in zip(late, self.asked, strict=True)]
        await self.requests.fetch(clock, [Wanted.WEIGHTS if each else Wanted.NOTHING for each in missing])
        self.asked = [asked or each for asked, each in zip(self.asked, missing, strict=True)]
        for k, each in enumerate(late):
            if each:
                await self._look(k, timeout=None)

    async def _look(self, shard: int, timeout: float | None) -> None:
        if self.asked[shard] and (came := await self.requests.response(shard, timeout)) is not None:
            self.asked[shard], self.fresh[shard] = False, came

    def _take_over(self) -> Response:
        if all(each is None for each in self.fresh):
            return ApplyContributions([])
        held = self.requests.cut(self.requests.model_state.anchor)
        parts = [part.cpu() if fresh is None else fresh for part, fresh in zip(held, self.fresh, strict=True)]
        self.fresh = [None] * len(parts)
        return AdoptWeights(self.requests.joined(parts))

    async def _settle(self) -> None:
        for k in range(len(self.asked)):
            await self._look(k, timeout=None)

    async def finish(self) -> Response:
        await self._settle()
        await self.requests.done()
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        await self._settle()
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return {"requests": self.requests.export(), "fresh": self.fresh, "finished": self.tasks.finished}

    def restore(self, state: StateTree) -> None:
        self.requests.restore(state["requests"])
        self.fresh = state["fresh"]
        self.tasks.finish_through(state["finished"])

    def take_over(self, state: StateTree, own: bool) -> None:
        self.requests.take_over(state["requests"], own)
        self.fresh = state["fresh"]
        self.tasks.finish_through(state["finished"])

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()
