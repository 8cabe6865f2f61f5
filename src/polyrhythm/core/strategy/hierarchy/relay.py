"""A server that adds up what the workers of its group push, and has a server above it merge the sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState
from polyrhythm.core.protocols.upstream import GroupServer
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState


@dataclass(frozen=True, slots=True)
class Relaying:
    """The servers above a group's server, which is one of a `group` of servers there: the agreement with them, and a channel over a port.

    `workers` are the group's own. The value that it sends is multiplied by `weight`: servers count by the numbers of their workers.
    """

    agreement: Agreement
    connect: Callable[[Port], Channel]
    group: Group
    workers: tuple[str, ...]
    weight: float

    def link(self, port: Port, server: GroupServer) -> Relay:
        return Relay(self, port, server)


class Relay:
    """Represents the group's workers at the servers above: sends what the group's server has merged, and takes over their weights.

    The group's server waits for that, and its workers with it, so that they get the weights from above.
    """

    def __init__(self, upstream: Relaying, port: Port, server: GroupServer) -> None:
        self.upstream = upstream
        self.port = port
        self.server = server
        self.channel = upstream.connect(port)
        self.state: ModelState
        self.merged: Tensor | None = None
        self.rates: tuple[float, ...] = ()
        self.clock = 0

    def optimizer(self, recipe: str, weights: Tensor, layout: Layout) -> Relay:
        """The relay itself, which only keeps the gradient: the optimizer runs above."""
        return self

    def step_on(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        """Keep the gradient, to be sent with the next `offer`.

        Its step is a later one than that of the last, also where the slowest worker has taken none meanwhile: the servers above tell
        repeats by it.
        """
        self.merged, self.rates = gradient, rates
        self.clock += 1

    async def establish(self, state: ModelState, recipe: str) -> None:
        """Start with the weights of the first group."""
        merging = ExchangeContext(self.upstream.group, self.port.rng("relay"))
        self.state = ModelState(state.weights, state.layout, self.upstream.agreement.merge, merging, None)
        (await self.channel.establish(InitialState(self.state, recipe))).apply(self.state)

    def may_proceed(self, clock: int) -> bool:
        """True always: the wait for servers above is in `offer`."""
        return True

    async def offer(self, update: Tensor, clock: float) -> None:
        """Send the merged value, and wait until the servers above have merged it."""
        if clock < math.inf:
            self.clock = max(self.clock, int(clock))
        await self._send()

    async def _send(self) -> None:
        assert self.merged is not None, "a merge has taken a step"
        response = await self.channel.exchange(self.merged * self.upstream.weight, self.clock, self.rates)
        self.merged = None
        self._apply(response)

    async def offer_again(self) -> None:
        """The servers above know whether they have it."""
        if self.merged is not None:
            await self._send()

    async def finish(self) -> None:
        """Take over the final weights from above."""
        self._apply(await self.channel.finish())

    async def drain(self, step: int) -> str:
        """Make the servers above write their state."""
        return await self.channel.drain(step)

    def export(self) -> StateTree:
        """The state of the channel; the weights are the server's."""
        sending = {} if self.merged is None else {"merged": self.merged, "rates": self.rates}
        return {"channel": self.channel.export(), "clock": self.clock, "state": {**self.state.export(), "weights": None}, **sending}

    def restore(self, state: StateTree) -> None:
        """Take over what was exported, after the server's weights."""
        self.channel.restore(state["channel"])
        self._restore(state)

    def take_over(self, state: StateTree) -> None:
        """As `restore`, after the crew has changed."""
        self.channel.take_over(state["channel"], own=True)
        self._restore(state)

    def _restore(self, state: StateTree) -> None:
        self.clock, self.merged, self.rates = state["clock"], state.get("merged"), state.get("rates", ())
        self.state.restore({**state["state"], "weights": self.state.weights})

    def _apply(self, response: Response) -> None:
        self.server.changing()
        response.apply(self.state)
        self.server.changed()
