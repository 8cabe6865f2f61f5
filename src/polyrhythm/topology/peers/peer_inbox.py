"""An actor's inbox: updates of its peers, which come at any time and wait until they may be merged."""

from __future__ import annotations

import math
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from torch import Tensor

from polyrhythm.core.collectives.broadcast import children, pass_on
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import PacketCodec, packets
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.merge import AnyContribution, EncodedContribution
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.state import admitted
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree

_FIRST, UPDATES = "init", "u"
_DRAINED = "drained"
"""The text of an update that has nothing but this: its sender sends nothing more before a checkpoint."""


_ORDER = itemgetter(0, 1)
"""The step and the rank of what is pending."""


class PeerUpdate(NamedTuple):
    """The numbers that a worker sends with a packet: its step (infinite after the last), and the learning rates of its optimizer.

    `samples` is what it was computed on, where the merge weighs by them; else None, and not sent.
    """

    clock: float
    rates: tuple[float, ...] = ()
    samples: float | None = None

    def to_numbers(self) -> tuple[float, ...]:
        """The fields in order, the rates last."""
        return (self.clock, *(() if self.samples is None else (self.samples,)), *self.rates)

    @staticmethod
    def from_numbers(numbers: tuple[float, ...], weighs: bool = False) -> PeerUpdate:
        """The update whose `to_numbers` these are, of workers whose merge `weighs` by samples or does not."""
        clock, *rates = numbers
        samples = rates.pop(0) if weighs and rates else None
        return PeerUpdate(clock, tuple(rates), samples)


class PeerInbox:
    """`clocks` are the latest steps received, by peer; `pending` what has come and may not be merged yet.

    `drained` are the peers that send nothing until the next checkpoint is written.
    """

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.codec: PacketCodec = packets(agreement.codec)
        self.weighs = Capability.SAMPLES in agreement.merge.traits.requires
        self.may_merge = agreement.conditions.may_merge
        self.may_proceed = agreement.conditions.may_proceed
        self.group = endpoint.group
        self.port = endpoint.port
        self.layout = Layout((), ())
        self.clocks = {name: 0.0 for name in self.group.members if name != self.port.name}
        self.pending: list[tuple[float, int, AnyContribution]] = []
        self.drained: set[str] = set()

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of the first worker, which all begin with."""
        self.layout = initial.model_state.layout
        first = initial.agreed() if self.group.is_first else None
        await follow_losses(self.port, partial(self._lose, first))
        if first is None:
            delivery = await self.port.receive(_FIRST)  # from the parent in the tree, or from the first worker in its stead
            assert delivery is not None
            weights = delivery.message.tensors[0]
        else:
            weights = first
        await pass_on(self.port, self.group, Message(_FIRST, tensors=(weights,)))
        return weights

    async def _lose(self, first: Tensor | None, name: str) -> None:
        if self.clocks.pop(name, None) is None:
            return
        await self.wake()
        if first is not None:
            for child in (self.group.members[rank] for rank in children(self.group.members.index(name), self.group.size)):
                if self.clocks.get(child) == 0:  # nothing received yet: it may be waiting for what the lost one had for it
                    await self.port.send(child, Message(_FIRST, tensors=(first,)))

    @property
    def peers(self) -> list[str]:
        """Those that are left, beginning with the next in rank: who sends to all does not begin with the same one as the others."""
        after = (self.group.members[(self.group.rank + step) % self.group.size] for step in range(1, self.group.size))
        return [name for name in after if name in self.clocks]

    @property
    def slowest(self) -> float:
        """The least clock that a peer has sent; infinite where all have finished."""
        return min(self.clocks.values(), default=math.inf)

    async def send_all(self, message: Message) -> None:
        """Send a message to all peers."""
        await self.port.send_all(self.peers, message)

    async def wake(self) -> None:
        """Have `receive` return without an update."""
        await self.port.send(self.port.name, Message(UPDATES))

    async def receive(self) -> None:
        """Wait until a peer has sent something, or for `wake`."""
        delivery = await self.port.receive(UPDATES)
        assert delivery is not None
        self._take(delivery)

    async def await_turn(self, clock: float) -> None:
        """Wait until a worker that has sent its step `clock` may continue."""
        while not self.may_proceed(int(clock), self.slowest):
            await self.receive()

    async def ready(self, clock: float) -> list[AnyContribution]:
        """All that has come and may be merged at `clock`, in the order of steps and ranks."""
        for delivery in await self.port.receive_all(UPDATES):
            self._take(delivery)
        pending, found = self.pending, list[tuple[float, int, AnyContribution]]()
        self.pending = []
        for item in pending:
            (found if self.may_merge(item[0], clock) else self.pending).append(item)
        found.sort(key=_ORDER)
        return [contribution for _, _, contribution in found]

    async def finish(self) -> list[AnyContribution]:
        """Notify all that this was the last update; return everything that comes until all others have done the same."""
        await self.send_all(Message(UPDATES, PeerUpdate(math.inf).to_numbers()))
        while self.slowest < math.inf:
            await self.receive()
        return await self.ready(math.inf)

    async def drain(self) -> None:
        """Notify all that nothing more comes before a checkpoint, and wait until all others have done the same."""
        await self.send_all(Message(UPDATES, text=_DRAINED))
        while self.clocks.keys() - self.drained:
            await self.receive()
        self.drained.clear()

    def _take(self, delivery: Delivery) -> None:
        if delivery.sender == self.port.name:
            return
        if delivery.message.text == _DRAINED:
            self.drained.add(delivery.sender)
            return
        update = PeerUpdate.from_numbers(delivery.message.numbers, self.weighs)
        if delivery.sender in self.clocks:
            self.clocks[delivery.sender] = max(update.clock, self.clocks[delivery.sender])  # a packet may be overtaken by its sender's end
        if delivery.message.tensors:
            self.keep_packet(update, delivery.sender, delivery.message.tensors)

    def keep_packet(self, update: PeerUpdate, sender: str, packet: Packet) -> None:
        """Keep a packet until it may be merged."""
        clock, samples = int(update.clock), update.samples or 0.0
        self.keep(EncodedContribution(packet, self.codec, self.layout, update.rates, sender, clock, samples=samples))

    def update(self, clock: int, rates: tuple[float, ...], held: WeightsView) -> PeerUpdate:
        """The numbers for a packet of step `clock`; the samples are those that `held` has counted."""
        return PeerUpdate(float(clock), rates, held.take_samples() if self.weighs else None)

    def keep(self, contribution: AnyContribution) -> None:
        """Keep a contribution until it may be merged."""
        self.pending.append((float(contribution.clock), rank_of(contribution.sender), contribution))

    def export(self) -> StateTree:
        """The state for a checkpoint, after `drain`; pending contributions have come as packets."""
        pending = [
            (clock, each.sender, each.packet, each.rates, each.samples)
            for clock, _, each in self.pending
            if isinstance(each, EncodedContribution)
        ]
        return {"clocks": self.clocks, "pending": pending}

    def restore(self, state: StateTree) -> None:
        """Continue with the peers that are still there; what has come counts, also from others."""
        self.clocks, self.pending = admitted(state["clocks"], self.clocks, 0.0), []
        for clock, sender, packet, rates, samples in state["pending"]:
            self.keep_packet(PeerUpdate(clock, tuple(rates), samples), sender, packet)
