"""Means over groups that change, so that everyone's weights reach everyone; a lost worker affects its group alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import NEIGHBOURS
from polyrhythm.topology.gossip.peer_mail import MAIL, PeerMail
from polyrhythm.topology.graphs.grid import line

_PART, _MEAN = "part", "mean"


@dataclass(frozen=True, slots=True)
@checked
class Moshpit:
    """Workers average within lines of a virtual grid, along one axis after the other (Ryabinin, Gorbunov, Plokhotnyuk, Pekhimenko, 2021).

    Each of an exchange's `rounds` averages over groups that differ in the coordinate of one axis alone. Where the grid is full, all have
    the mean of all after as many rounds as it has `dimensions`. A group sums by parts: member k gets part k of everyone, and sends
    everyone the mean, 2 (n - 1) / n times the weights. Of a member that is lost, the others keep their own of its part, and it is in no
    mean of theirs from then on; nobody else is held up. The paper gives each peer a new place after each round, and forms groups of those
    who come; here places are those of the ranks, which does the same where nobody joins, and who sums which part changes from one round
    along an axis to the next, so that every part has its turn. The run ends with the mean of all that are left.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.WEIGHTS}), "with neighbours", NEIGHBOURS, frozenset({Capability.MIXING}), tolerates_loss=True
    )
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    dimensions: int = 2
    rounds: int = 1

    def __post_init__(self) -> None:
        if any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in (self.dimensions, self.rounds)):
            raise CompositionError(f"{self} is no grid with rounds along its axes: give whole numbers of at least 1, such as 2 and 1.")

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Member(self, agreement, endpoint)


class _Member:
    """`came` are packets of others that are not merged yet, by what they are of and their sender; `numbered` counts rounds."""

    offers = NOTHING

    def __init__(self, grid: Moshpit, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.grid = grid
        self.codec = packets(agreement.codec)
        self.group = endpoint.group
        self.port = endpoint.port
        self.mail = PeerMail(endpoint, self._take)
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.came: dict[tuple[str, str], Packet] = {}
        self.numbered = 0
        self.initial: InitialState

    async def establish(self, initial: InitialState) -> Response:
        self.initial = initial
        weights = await self.mail.establish(initial)
        await self.mail.listen()
        return AdoptWeights(weights)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        value = value.clone()
        for _ in range(self.grid.rounds):
            value = await self._average(value, clock)
        return AdoptWeights(value)

    async def _average(self, value: Tensor, clock: int) -> Tensor:
        """The mean over the group of this round, of those who are left."""
        number, self.numbered = self.numbered, self.numbered + 1
        ranks = line(self.group.rank, number % self.grid.dimensions, self.group.size, self.grid.dimensions)
        if len(ranks) == 1:
            return value
        turn = number // self.grid.dimensions % len(ranks)
        ranks = ranks[turn:] + ranks[:turn]  # the part of a lost member is another one each time
        parts, mine = list(value.tensor_split(len(ranks))), ranks.index(self.group.rank)
        others = {k: self.group.members[rank] for k, rank in enumerate(ranks) if k != mine}
        for k, name in others.items():
            await self._send([name], f"{number}.{_PART}", parts[k], clock)
        given = {k: packet for k, name in others.items() if (packet := await self._receive(f"{number}.{_PART}", name)) is not None}
        layout = _layout(parts[mine])
        mean = _mean([parts[mine] if k == mine else self.codec.decode(given[k], layout) for k in sorted((*given, mine))])
        parts[mine] = await self._send(list(others.values()), f"{number}.{_MEAN}", mean, clock)
        for k, name in others.items():
            if (packet := await self._receive(f"{number}.{_MEAN}", name)) is not None:
                parts[k] = self.codec.decode(packet, _layout(parts[k]))
        self.came = {about: packet for about, packet in self.came.items() if not about[0].startswith(f"{number}.")}
        return torch.cat(parts)

    async def _send(self, names: Sequence[str], text: str, part: Tensor, clock: int) -> Tensor:
        """Send a part to those of `names` that are there. Returns what they decode."""
        layout = _layout(part)
        encoded = self.codec.encode(part, layout, self.codec.initial(layout), self.context.at(clock, lambda: part))
        message = Message(MAIL, text=text, tensors=encoded.packet)
        for name in names:
            if self._there(name):
                await self.port.send(name, message)
        return encoded.sent

    async def _receive(self, text: str, name: str) -> Packet | None:
        """The packet that another has sent; None where it is gone and has sent none."""
        while (text, name) not in self.came:
            if not self._there(name):
                return None
            await self.port.wait(self.mail.changed)
        return self.came.pop((text, name))

    def _there(self, name: str) -> bool:
        return self.mail.present(name) and name not in self.mail.finished

    async def _take(self, sender: str, message: Message) -> None:
        self.came[message.text, sender] = message.tensors
        self.mail.wake()

    async def finish(self) -> Response:
        await self.mail.finish()
        return AdoptWeights(await self.mail.mean(self.initial.weights()))

    async def drain(self, step: int) -> str:
        return await self.mail.drain()

    def export(self) -> StateTree:
        return {"rounds": self.numbered}

    def restore(self, state: StateTree) -> None:
        self.numbered = state["rounds"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Rounds are counted anew, on the grid of now."""

    def inherit(self, residual: Tensor) -> None:
        """No codec keeps anything back."""

    def states(self) -> list[tuple[State, Tensor]]:
        return []


def _layout(part: Tensor) -> Layout:
    return Layout(("part",), ((part.numel(),),))


def _mean(values: Sequence[Tensor]) -> Tensor:
    """The mean of `values`; elements that are equal everywhere keep their bits."""
    first = values[0]
    return first - sum(((first - other) for other in values[1:]), torch.zeros_like(first)) / len(values)


EXAMPLES = (Moshpit(), Moshpit(dimensions=3, rounds=3))
