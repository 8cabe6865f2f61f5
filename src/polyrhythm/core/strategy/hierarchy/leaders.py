"""A group that exchanges with others as one: through its first member, or each member with its part of the vector."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast_message
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.response_messages import joined, packed, unpacked
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Channel, InitialState
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree, separate
from polyrhythm.errors import CheckpointError

_RESPONSE = "response"


class LeaderChannel:
    """The leader of `group`, its member of rank 0, exchanges through `outer`, and broadcasts the responses; the others have no `outer`."""

    offers = NOTHING

    def __init__(self, group: Group, port: Port, outer: Channel | None) -> None:
        self.group = group
        self.port = port
        self.outer = outer

    async def establish(self, initial: InitialState) -> Response:
        """The leader gets the weights of worker 0, and all get the leader's."""
        return await self._share(None if self.outer is None else self.outer.establish(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        """The leader exchanges `value`, which all members have, and all get the response."""
        return await self._share(None if self.outer is None else self.outer.exchange(value, clock, rates))

    async def finish(self) -> Response:
        """All get the final weights of the leader."""
        return await self._share(None if self.outer is None else self.outer.finish())

    async def drain(self, step: int) -> str:
        return "" if self.outer is None else await self.outer.drain(step)

    def export(self) -> StateTree:
        """The state of the leader's channel; None at the others."""
        return None if self.outer is None else self.outer.export()

    def restore(self, state: StateTree) -> None:
        if self.outer is not None:
            self.outer.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """A leader continues as one; in a run under way a new one begins to exchange with other groups anew.

        Raises CheckpointError in a run that is resumed where another worker led, and something of the exchange would be lost.
        """
        lost = (self.outer is not None and state is None) or (self.outer is None and own and separate(state)[1])
        if lost and not self.port.changed:
            raise CheckpointError(
                f"{self.port.name} or another worker of its group exchanged with other groups for it, and another worker does now, which "
                "has not got what was kept for that: resume with groups that have the same first workers, such as ByRank(size), or take a "
                "codec without a residual."
            )
        if self.outer is not None and state is not None:
            self.outer.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        """The leader sends it later; others send nothing."""
        assert self.outer is not None or not residual.any(), "the first worker inherits, and leads a group"
        if self.outer is not None:
            self.outer.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states at the leader; the others have none."""
        return [] if self.outer is None else self.outer.states()

    async def _share(self, exchange: Coroutine[Effect[Any], Any, Response] | None) -> Response:
        if exchange is None:
            return unpacked(await broadcast_message(self.port, self.group, Message(_RESPONSE)))
        response = await exchange
        if self.group.size > 1:
            await broadcast_message(self.port, self.group, packed(response, _RESPONSE))
        return response


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of a replica's weights, as an exchange of that range alone sees them."""

    whole: WeightsView
    layout: Layout
    start: int

    @property
    def weights(self) -> Tensor:
        return self.whole.weights.narrow(0, self.start, self.layout.numel)

    @property
    def anchor(self) -> Tensor:
        return self.whole.anchor.narrow(0, self.start, self.layout.numel)

    @property
    def factors(self) -> Mapping[str, Factors]:
        return self.whole.factors

    @property
    def rates(self) -> Callable[[], tuple[float, ...]]:
        return self.whole.rates

    def take_samples(self) -> float:
        return self.whole.take_samples()


class StripeChannel:
    """Each member of `group` exchanges a stripe, a range of the vector, with the same rank in other groups; all gather the results."""

    offers = NOTHING

    def __init__(self, group: Group, port: Port, outer: Channel) -> None:
        self.group = group
        self.port = port
        self.outer = outer
        self.stripes: list[Layout] = []
        self.layout: Layout

    async def establish(self, initial: InitialState) -> Response:
        """Start each stripe with the weights of worker 0."""
        self.layout = initial.model_state.layout
        self.stripes = self.layout.split(self.group.size)
        start = sum(stripe.numel for stripe in self.stripes[: self.group.rank])
        mine = _Range(initial.model_state, self.stripes[self.group.rank], start)
        return await self._gather(await self.outer.establish(InitialState(mine, initial.optimizer, initial.controls)))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        """Exchange this member's stripe of `value`, which is the same at every member."""
        stripe = self.layout.cut(value, self.stripes)[self.group.rank]
        return await self._gather(await self.outer.exchange(stripe, clock, rates))

    async def finish(self) -> Response:
        """The final weights, from all stripes."""
        return await self._gather(await self.outer.finish())

    async def drain(self, step: int) -> str:
        return await self.outer.drain(step)

    def export(self) -> StateTree:
        """The state of the stripe's channel, and which stripe it is."""
        return {"rank": self.group.rank, "stripes": self.group.size, "outer": self.outer.export()}

    def restore(self, state: StateTree) -> None:
        self.outer.restore(state["outer"])

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue with the same stripe. Raises CheckpointError where it is another."""
        before, now = (state["rank"], state["stripes"]), (self.group.rank, self.group.size)
        if before != now:
            raise CheckpointError(
                f"{self.port.name} exchanges stripe {now[0]} of {now[1]} now, and the state that it continues from is of stripe "
                f"{before[0]} of {before[1]}: resume with as many workers in each group, or with across=Leaders() from the beginning."
            )
        self.outer.take_over(state["outer"], own)

    def inherit(self, residual: Tensor) -> None:
        """Send its own stripe of it. Raises CheckpointError where there is something in others."""
        parts = self.layout.cut(residual, self.stripes)
        if any(part.any() for rank, part in enumerate(parts) if rank != self.group.rank):
            raise CheckpointError(
                f"A worker that has left kept a part of stripes back that {self.port.name} does not exchange: resume with all workers, or "
                "take a codec without a residual."
            )
        self.outer.inherit(parts[self.group.rank])

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states of this member's stripe; the residual is zero elsewhere in the vector."""
        residuals = self.outer.states()
        mine = torch.cat([residual for _, residual in residuals]) if residuals else torch.zeros(self.stripes[self.group.rank].numel)
        parts = [mine if rank == self.group.rank else torch.zeros(stripe.numel) for rank, stripe in enumerate(self.stripes)]
        return [({key: tensor for state, _ in residuals for key, tensor in state.items()}, torch.cat(parts))]

    async def _gather(self, response: Response) -> Response:
        """Send this stripe's response to every member, and join all of them."""
        mine = packed(response, f"{_RESPONSE}.{self.group.rank}")
        messages = [mine] * self.group.size
        for step in range(1, self.group.size):
            await self.port.send(self.group.members[(self.group.rank + step) % self.group.size], mine)
        for step in range(1, self.group.size):
            rank = (self.group.rank - step) % self.group.size
            delivery = await self.port.receive(f"{_RESPONSE}.{rank}", self.group.members[rank])
            assert delivery is not None
            messages[rank] = delivery.message
        return joined(messages) if self.group.size > 1 else response
