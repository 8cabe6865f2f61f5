"""Workers that send their updates as an endless stream of datagrams, and never resend a lost one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.events import Undelivered
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import DATAGRAM_BYTES, Message
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.datagrams.stream_peers import StreamPeers
from polyrhythm.topology.datagrams.weight_ranges import WeightRanges

DELTAS, WEIGHTS = "delta", "weights"
_BEHIND_SECONDS = 0.02
"""Time for datagrams that were sent before a message and arrive after it."""
_HEAD_BYTES = 1024
"""More bytes than a datagram has in addition to its values."""


@dataclass(frozen=True, slots=True)
@checked
class LossyStreams:
    """Each worker loops over its weights and sends all others what it did to them, a range of `nbytes` after another, in datagrams.

    Nobody sends a lost datagram again (Dogwild!; Noel, Osindero, 2014). What a worker did to a range since it last sent that goes as a
    difference: a lost one is lost, and one that comes twice counts twice. So each range has an owner, which in every `refresh`-th round
    sends the weights themselves instead, with a number that grows: who gets them is rid of all earlier errors, and drops those that are not
    newer than what it has. At the end everyone gets the owners' weights reliably; only what was lost on its way to an owner is then
    missing. The owners count that, and record it. The loop runs concurrently with the training, at the pace of the network.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.UPDATE}), "in datagrams", frozenset({Capability.ONE_SIDED, Capability.SUMS, Capability.HELD_ELSEWHERE})
    )
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    nbytes: int = 8192
    refresh: int = 4

    def __post_init__(self) -> None:
        most = DATAGRAM_BYTES - _HEAD_BYTES
        if isinstance(self.nbytes, bool) or not isinstance(self.nbytes, int) or not 8 <= self.nbytes <= most:
            raise CompositionError(f"LossyStreams(nbytes={self.nbytes!r}) fits no datagram: give a whole number from 8 to {most}.")
        if isinstance(self.refresh, bool) or not isinstance(self.refresh, int) or self.refresh < 1:
            raise CompositionError(f"LossyStreams(refresh={self.refresh!r}) would never send weights: give a number of rounds, 1 or more.")

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _StreamingChannel(self, endpoint)


class _StreamingChannel:
    """`buffer` are the worker's weights (numel,), and `accrued` what it did to them and has not sent, with the sign of a gradient.

    `produced` is the sum of its updates, and `applied` that of the others' that arrived. `versions` number the newest weights of each range
    that were sent or taken. `stepped` opens with a step, `idle` at the end of a round of the loop.
    """

    offers = NOTHING

    def __init__(self, settings: LossyStreams, endpoint: WorkerEndpoint) -> None:
        self.settings = settings
        self.port = endpoint.port
        self.peers = StreamPeers(endpoint)
        self.buffer: Tensor
        self.accrued: Tensor
        self.produced: Tensor
        self.applied: Tensor
        self.ranges: WeightRanges
        self.versions: list[int] = []
        self.rounds = 0
        self.arrived: dict[str, int] = {}
        self.sent = 0
        self.superseded = 0
        self.stepped, self.idle = Latch(), Latch()
        self.idle.open()

    async def establish(self, initial: InitialState) -> Response:
        self.buffer = (await self.peers.establish(initial.agreed())).clone()
        self.accrued, self.produced, self.applied = (torch.zeros_like(self.buffer) for _ in range(3))
        most = max(1, self.settings.nbytes // self.buffer.element_size())
        self.ranges = WeightRanges(self.buffer.numel(), most, self.peers.group.members)
        self.versions = [0] * len(self.ranges)
        self.arrived = dict.fromkeys(self.peers.group.members, 0)
        if self.peers.others:
            await self.port.spawn("stream", self._stream())
        return AdoptWeights(self.buffer.clone())

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        for vector in (self.accrued, self.produced):
            vector += value
        self.buffer -= value
        await self._take_all()
        self.idle = Latch() if self.idle.is_open and self.peers.others else self.idle
        self.stepped.open()
        return AdoptWeights(self.buffer.clone())

    async def _stream(self) -> None:
        """A round of the loop for every step, or for several where the network is slower."""
        while True:
            await self.port.wait(self.stepped)
            self.stepped = Latch()
            for number in range(len(self.ranges)):
                message = self._next(number)
                self.sent += 1
                for name in self.peers.others:
                    await self.port.send_datagram(name, message)
                await self.port.flush()  # on a line that is too slow, what has not left yet would come ever later
            self.rounds += 1
            if not self.stepped.is_open:
                self.idle.open()

    def _next(self, number: int) -> Message:
        """The next datagram of a range: its weights if it is time, else this worker's updates of it."""
        accrued = self.ranges.of(self.accrued, number)
        delta = accrued.clone()
        accrued.zero_()
        if self.ranges.owner(number, self.peers.view) == self.port.name and (self.rounds + number) % self.settings.refresh == 0:
            self.versions[number] += 1
            weights = self.ranges.of(self.buffer, number).clone()
            return Message(WEIGHTS, (float(number), float(self.versions[number])), tensors=(weights,))
        return Message(DELTAS, (float(number),), tensors=(delta,))

    async def _take_all(self) -> None:
        """Take all datagrams that have arrived so far."""
        for topic, take in ((DELTAS, self._take_delta), (WEIGHTS, self._take_weights)):
            while (delivery := await self.port.receive(topic, timeout=0.0)) is not None:
                self.arrived[delivery.sender] += 1
                take(delivery.message)

    def _take_delta(self, message: Message) -> None:
        number, (delta,) = int(message.numbers[0]), message.tensors
        self.ranges.of(self.applied, number).add_(delta)
        self.ranges.of(self.buffer, number).sub_(delta)

    def _take_weights(self, message: Message) -> None:
        """Take them over, with what was done here on top, unless newer ones have come."""
        number, version = (int(each) for each in message.numbers)
        if version <= self.versions[number]:
            self.superseded += 1
            return
        self.versions[number] = version
        self.ranges.of(self.buffer, number).copy_(message.tensors[0] - self.ranges.of(self.accrued, number))

    async def finish(self) -> Response:
        """End the loop, send owners reliably what is left, and take over what they then have."""
        await self._quieten()
        for name in self.peers.others:
            theirs = self._of(name)
            await self.peers.send(name, (self.sent, *theirs), (self._cut(self.accrued, theirs), self._cut(self.produced, theirs)))
        ended = await self.peers.gather(self.peers.others)
        sent = {name: int(message.numbers[0]) for name, message in ended.items()}
        await self._take_all()
        if any(self.arrived[name] < count for name, count in sent.items()):
            await self.port.sleep(_BEHIND_SECONDS)
            await self._take_all()
        produced = torch.zeros_like(self.buffer)
        for message in ended.values():
            rest, all_of_it = (self._laid_out(message.numbers[1:], values) for values in message.tensors)
            produced += all_of_it
            self.buffer -= rest
            self.applied += rest
        self._record(sent, produced)
        return AdoptWeights(await self._assemble())

    def _record(self, sent: dict[str, int], produced: Tensor) -> None:
        """Record the others' updates of the ranges that belong to this worker, and how much of them was lost."""
        mine = self._of(self.port.name)
        all_of_it = self._cut(produced, mine)
        lost = all_of_it - self._cut(self.applied, mine)
        amounts = float(lost.double().norm()), float(all_of_it.double().norm())
        arrived = sum(self.arrived[name] for name in sent)
        self.port.record(Undelivered(self.port.now(), self.port.name, sum(sent.values()), arrived, self.superseded, *amounts))

    async def _assemble(self) -> Tensor:
        """The owners' weights, end to end."""
        mine = self._of(self.port.name)
        for name in self.peers.others:
            await self.peers.send(name, tuple(mine), (self._cut(self.buffer, mine),))
        final = self.buffer.clone()
        for message in (await self.peers.gather(self.peers.others)).values():
            for number, values in zip(message.numbers, self._parts(message.numbers, message.tensors[0]), strict=True):
                self.ranges.of(final, int(number)).copy_(values)
        return final

    def _of(self, name: str) -> list[int]:
        return self.ranges.owned(name, self.peers.view)

    def _cut(self, vector: Tensor, numbers: list[int]) -> Tensor:
        """These ranges of `vector`, end to end; a new tensor."""
        return torch.cat([vector[:0], *(self.ranges.of(vector, number) for number in numbers)])

    def _parts(self, numbers: Sequence[float], values: Tensor) -> tuple[Tensor, ...]:
        """The ranges of these numbers, of `values` that has them end to end."""
        return torch.split(values, [end - begin for begin, end in (self.ranges.bounds[int(number)] for number in numbers)])

    def _laid_out(self, numbers: Sequence[float], values: Tensor) -> Tensor:
        """`values` in the places (numel,) of their ranges, and zeros elsewhere."""
        whole = torch.zeros_like(self.buffer)
        for number, part in zip(numbers, self._parts(numbers, values), strict=True):
            self.ranges.of(whole, int(number)).copy_(part)
        return whole

    async def _quieten(self) -> None:
        """Wait until the loop has sent what there was to send."""
        while not self.idle.is_open:
            await self.port.wait(self.idle)

    async def drain(self, step: int) -> str:
        """Wait until all have stopped sending; datagrams that are still late arrive after the checkpoint, or never."""
        await self._quieten()
        for name in self.peers.others:
            await self.peers.send(name, (), ())
        await self.peers.gather(self.peers.others)
        await self._take_all()
        return ""

    def export(self) -> StateTree:
        vectors = {"buffer": self.buffer, "accrued": self.accrued, "produced": self.produced, "applied": self.applied}
        counts = {"rounds": self.rounds, "sent": self.sent, "superseded": self.superseded, "arrived": self.arrived}
        return {**vectors, **counts, "versions": self.versions}

    def restore(self, state: StateTree) -> None:
        self.buffer, self.accrued = state["buffer"], state["accrued"]
        self.produced, self.applied = state["produced"], state["applied"]
        self.rounds, self.sent, self.superseded = state["rounds"], state["sent"], state["superseded"]
        self.arrived, self.versions = state["arrived"], state["versions"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Datagrams are counted anew; a worker that joins has done nothing to the weights yet."""
        self.buffer, self.accrued = state["buffer"], state["accrued"] if own else torch.zeros_like(self.buffer)
        self.produced = self.accrued.clone()

    def inherit(self, residual: Tensor) -> None:
        """No codec keeps anything back."""

    def states(self) -> list[tuple[State, Tensor]]:
        """Nothing is encoded, and nothing kept back from the worker's own weights."""
        return []


EXAMPLES = (LossyStreams(nbytes=64, refresh=2),)
