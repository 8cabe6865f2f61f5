"""A group's server among those of other groups: each has a copy of the weights, and sends the others its workers' changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, PeerChannel
from polyrhythm.core.protocols.upstream import GroupServer
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.remote_optimizer import RemoteOptimizer
from polyrhythm.core.weights.state import ModelState

_FINISHED, _DRAINED = "mirrored", "drained"


@dataclass(frozen=True, slots=True)
class Mirroring:
    """The servers of other groups as peers: the agreement with them, a channel over a port, and the workers of all groups."""

    agreement: Agreement
    connect: Callable[[Port], PeerChannel]
    workers: tuple[str, ...]

    def link(self, port: Port, server: GroupServer) -> Mirror:
        return Mirror(self, port, server)


class Mirror:
    """Sends accrued updates to other groups while the server works for its own, so that its workers do not wait for these.

    They wait only where the outer consistency requires it: when a worker is too far ahead of the slowest group (the mirror clock of Gaia).
    """

    def __init__(self, upstream: Mirroring, port: Port, server: GroupServer) -> None:
        self.upstream = upstream
        self.port = port
        self.server = server
        self.channel = upstream.connect(port)
        self.state: ModelState
        self.accrued: Tensor | None = None
        self.clock = 0
        self.ending = False
        self.draining = 0
        """The step after which a checkpoint waits for this mirror; 0 where none does."""

    def optimizer(self, recipe: str, weights: Tensor, layout: Layout) -> RemoteOptimizer | None:
        """The workers' own optimizer: each group's weights are whole."""
        return RemoteOptimizer(recipe, weights, layout) if recipe else None

    async def establish(self, state: ModelState, recipe: str) -> None:
        """Start with the weights of the first group."""
        merging = ExchangeContext(state.context.group, self.port.rng("mirror"))
        self.state = ModelState(state.weights, state.layout, self.upstream.agreement.merge, merging, None)
        (await self.channel.establish(InitialState(self.state, ""))).apply(self.state)
        await self.port.spawn("mirror", self._live())

    def may_proceed(self, clock: int) -> bool:
        """True if a worker that has done step `clock` need not wait for other groups."""
        return self.channel.may_proceed(clock)

    async def offer(self, update: Tensor, clock: float) -> None:
        """`update` (numel,) is the last change of the weights, with the sign of a gradient; the slowest worker is at `clock`.

        Other groups are told of no earlier clock than before, also where slower workers have come into this one.
        """
        self.accrued = update if self.accrued is None else self.accrued + update
        if clock < math.inf:
            self.clock = max(self.clock, int(clock))
        await self.channel.wake()

    async def offer_again(self) -> None:
        """Nothing: what it was sending to other groups is lost, as what they were sending."""

    async def finish(self) -> None:
        """Send the significant part of the rest, and receive from other groups until all have finished."""
        self.ending = True
        await self.channel.wake()
        await self.port.receive(_FINISHED)

    async def drain(self, step: int) -> str:
        """Wait until all that was sent to other groups, and by them, has arrived. Their servers write their own states."""
        self.draining = step
        await self.channel.wake()
        await self.port.receive(_DRAINED)
        return ""

    def export(self) -> StateTree:
        """The state of the channel and the accrued update; the weights are the server's."""
        state = {**self.state.export(), "weights": None}
        return {"channel": self.channel.export(), "accrued": self.accrued, "clock": self.clock, "state": state}

    def restore(self, state: StateTree) -> None:
        """Take over what was exported, after the server's weights."""
        self.channel.restore(state["channel"])
        self._restore(state)

    def take_over(self, state: StateTree) -> None:
        """As `restore`, after the crew has changed."""
        self.channel.take_over(state["channel"], own=True)
        self._restore(state)

    def _restore(self, state: StateTree) -> None:
        self.accrued, self.clock = state["accrued"], state["clock"]
        self.state.restore({**state["state"], "weights": self.state.weights})

    async def _live(self) -> None:
        while not (self.ending and self.accrued is None):
            if self.draining and self.accrued is None:  # what has accrued goes first: sent after the drain, no checkpoint would have it
                step, self.draining = self.draining, 0
                await self.channel.drain(step)
                await self.port.send(self.port.name, Message(_DRAINED))
            elif self.accrued is None:
                await self._apply(await self.channel.listen())
            else:
                value, self.accrued = self.accrued, None
                await self._apply(await self.channel.exchange(value, self.clock, ()))
        await self._apply(await self.channel.finish())
        await self.port.send(self.port.name, Message(_FINISHED))

    async def _apply(self, response: Response) -> None:
        self.server.changing()
        response.apply(self.state)
        self.server.changed()
        await self.server.release()
