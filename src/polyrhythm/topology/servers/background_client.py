"""A worker's side of parameter servers whose responses it does not wait for."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, RebaseUpdate, Response, StepLocally
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


class BackgroundClient:
    """Adds up what it is given until the consistency has it pushed, and looks at each step whether requested weights have come.

    It continues from the newest weights with its own last step on top of them (Dean et al., 2012, algorithm 7.1: parameters ←
    parameters - α gradient). `fetching` is, for each shard, whether a response is on its way, and `drained` one that has come
    before a checkpoint and is not taken over yet; `due` is what a last push needs: clock and rates.
    """

    offers = NOTHING

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.agreement = agreement
        self.requests = requests
        self.fetching = [False] * len(requests.names)
        self.drained: list[Tensor | None] = [None] * len(requests.names)
        self.accrued: Tensor | None = None
        self.due: tuple[int, tuple[float, ...]] = (0, ())

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        if clock != self.due[0]:  # else it is in there, and the crew has changed meanwhile
            self.accrued = value if self.accrued is None else self.accrued + value
        self.due = (clock, rates)
        rule, fresh = self.agreement.conditions, await self._arrived()
        reads = rule.must_read(clock, min(self.requests.clocks))
        wanted = [Wanted.WEIGHTS if reads and not fetching else Wanted.NOTHING for fetching in self.fetching]
        if rule.pushes(clock):
            await self._push(wanted)
        else:
            await self.requests.fetch(clock, wanted)
        self.fetching = [fetching or each is Wanted.WEIGHTS for fetching, each in zip(self.fetching, wanted, strict=True)]
        return StepLocally(fresh) if self.agreement.payload.is_gradient else RebaseUpdate(fresh, value)

    async def _push(self, wanted: list[Wanted]) -> None:
        if self.accrued is not None:
            await self.requests.push(self.accrued, self.due[0], wanted, self.due[1])
            self.accrued = None

    async def _arrived(self) -> Tensor | None:
        """The weights (numel,), with the parts of those shards whose response has come; None if none has."""
        parts = self.requests.cut(self.requests.model_state.anchor)
        came = [await self._came(k) for k in range(len(parts))]
        self.fetching = [fetching and fresh is None for fetching, fresh in zip(self.fetching, came, strict=True)]
        if all(fresh is None for fresh in came):
            return None
        return self.requests.joined([part.cpu() if fresh is None else fresh for part, fresh in zip(parts, came, strict=True)])

    async def _came(self, shard: int) -> Tensor | None:
        if self.drained[shard] is not None:
            fresh, self.drained[shard] = self.drained[shard], None
            return fresh
        return await self.requests.response(shard, timeout=0.0) if self.fetching[shard] else None

    async def finish(self) -> Response:
        """Push what has accrued; responses that are still on their way come before the final weights, and are dropped."""
        await self._push([Wanted.NOTHING] * len(self.fetching))
        await self.requests.done()
        for k, fetching in enumerate(self.fetching):
            if fetching:
                await self.requests.response(k)
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        for k, fetching in enumerate(self.fetching):
            if fetching:
                self.drained[k], self.fetching[k] = await self.requests.response(k), False
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return {"requests": self.requests.export(), "accrued": self.accrued, "due": self.due, "drained": self.drained}

    def restore(self, state: StateTree) -> None:
        self.requests.restore(state["requests"])
        self.accrued, self.due, self.drained = state["accrued"], state["due"], state["drained"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """With weights that have come, which are of the versions that the requests know."""
        self.requests.take_over(state["requests"], own)
        self.accrued, self.due, self.drained = state["accrued"] if own else None, state["due"], state["drained"]

    def inherit(self, residual: Tensor) -> None:
        self.accrued = residual if self.accrued is None else self.accrued + residual

    def states(self) -> list[tuple[State, Tensor]]:
        states = self.requests.states()
        if self.accrued is None:
            return states
        parts = self.requests.cut(self.accrued) if self.requests.divided.consecutive else [self.accrued]
        return [({**state, "accrued": part}, residual + part) for (state, residual), part in zip(states, parts, strict=True)]
