"""An actor's side of an overlay: what it sends by which way, what it takes in, and what it waits for."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.protocols.codec import packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyOnTop, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.overlay.barriers import Barrier, announced
from polyrhythm.topology.overlay.coverage import Coverage, Span, from_numbers, to_numbers
from polyrhythm.topology.overlay.hub_groups import HubGroups
from polyrhythm.topology.overlay.mirror_clock import MirrorClock
from polyrhythm.topology.overlay.overlay_sender import PARCELS, OverlaySender, Parcel, Route, read
from polyrhythm.topology.overlay.round_trips import RoundTripMeter

_FIRST = "init"


class OverlayChannel:
    """`pending` is what has come and is not merged yet, with its latest step; `stale` the elements that a sender has announced.

    What it is to send on as a hub goes with what it sends itself, or when a step's time has passed, so that a step makes one message a
    line; at the end, and before a checkpoint, it goes at once (`hurries`).
    """

    offers = NOTHING

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, groups: HubGroups, barrier: Barrier, clock: MirrorClock) -> None:
        self.conditions = agreement.conditions
        self.codec = packets(agreement.codec)
        self.group = endpoint.group
        self.port = endpoint.port
        self.groups = groups
        self.barrier = barrier
        self.bound = clock
        self.trips = RoundTripMeter(self.port, self.group)
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.model_state: WeightsView
        self.layout = Layout((), ())
        self.state: State = {}
        self.senders = {name: OverlaySender(name, self.port, self._announces) for name in self.group.members if name != self.port.name}
        self.coverage = Coverage(rank for rank in range(self.group.size) if rank != self.group.rank)
        self.pending: list[tuple[float, Parcel]] = []
        self.stale: dict[str, Tensor] = {}
        self.sent = 0.0
        self.clock = 0
        self.began = 0.0
        self.hurries = False
        self.gathers = False

    async def establish(self, initial: InitialState) -> Response:
        self.model_state = initial.model_state
        self.layout = initial.model_state.layout
        self.state = self.codec.initial(self.layout)
        self.context = replace(self.context, controls=initial.controls)
        weights = await broadcast(self.port, self.group, initial.agreed(), _FIRST)
        self.began = self.port.now()
        if self.bound.measures:
            await self.trips.begin()
        return AdoptWeights(weights)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        context = self.context.at(clock, lambda: self.model_state.weights, self.model_state.factors)
        encoded = self.codec.encode(value, self.layout, self.state, context)
        self.state, self.clock = encoded.state, clock
        await self._dispatch(encoded.sent if encoded.sent.any() else None, float(clock))
        await self._take_all()
        while not self.may_proceed(clock):
            await self._receive()
            await self._take_all()
        return self._ready(clock)

    @property
    def slowest(self) -> float:
        return self.coverage.slowest

    def may_proceed(self, clock: int) -> bool:
        """True if nothing is stale, and nobody is too slow."""
        lead = self.bound.lead(self.trips.longest, self._step())
        return not self.stale and self.conditions.may_proceed(clock, self.slowest) and clock - self.slowest <= lead

    async def wake(self) -> None:
        await self.port.send(self.port.name, Message(PARCELS))

    async def listen(self) -> Response:
        await self._receive()
        await self._take_all()
        return self._ready(math.inf)

    async def finish(self) -> Response:
        await self._dispatch(None, math.inf)
        await self._settle(math.inf)
        return self._ready(math.inf)

    async def drain(self, step: int) -> str:
        await self._dispatch(None, float(step))
        await self._settle(step)
        self.hurries = False
        return ""

    def export(self) -> StateTree:
        pending = [(clock, to_numbers(parcel.spans), parcel.value) for clock, parcel in self.pending]
        return {"codec": self.state, "coverage": self.coverage.export(), "pending": pending, "sent": self.sent, "clock": self.clock}

    def restore(self, state: StateTree) -> None:
        self.state, self.sent, self.clock = state["codec"], state["sent"], state["clock"]
        self.coverage.restore(state["coverage"], self.sent)
        self.pending = [(clock, Parcel(Route.KEEP, from_numbers(spans), value)) for clock, spans, value in state["pending"]]

    def take_over(self, state: StateTree, own: bool) -> None:
        """With all that has come and is not merged, as `restore`; what was under way will not come, and is not waited for."""
        self.restore({**state, "codec": taken_over(self.codec, [state["codec"]], [self.layout], own)[0]})
        self.coverage.begin_anew()
        self.sent = 0.0  # what it has sent so far is announced once more, also that it was the last

    def inherit(self, residual: Tensor) -> None:
        self.state = self.codec.inherit(self.state, residual, self.layout)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(self.state, self.codec.residual(self.state, self.layout))] if self.layout.names else []

    def stale_elements(self) -> set[int]:
        """The indices of all elements that were announced and have not come."""
        return {index for tensor in self.stale.values() for index in announced(tensor, self.layout.numel).tolist()}

    async def _dispatch(self, value: Tensor | None, until: float) -> None:
        """Send my own `value` (numel,), which is of my steps up to `until`, and what waited for it."""
        if value is not None or until > self.sent:
            parcel = Parcel(Route.FORWARD, [Span(self.group.rank, self.sent, max(until, self.sent))], value)
            self.sent = max(until, self.sent)
            hub = self.groups.hub(self.group.rank, self.clock)
            if hub == self.group.rank:
                self._forward(parcel, self.group.rank)
            else:
                self.senders[self.group.members[hub]].put(parcel)
        await self._send_on()

    def _forward(self, parcel: Parcel, sender: int) -> None:
        """To the hubs of other groups, and to all of my own group but the sender."""
        for rank in self.groups.hubs(self.group.rank, self.clock):
            self.senders[self.group.members[rank]].put(parcel._replace(route=Route.DISTRIBUTE))
        self._distribute(parcel, sender)

    def _distribute(self, parcel: Parcel, sender: int) -> None:
        for rank in self.groups.others(self.group.rank):
            if rank != sender:
                self.senders[self.group.members[rank]].put(parcel._replace(route=Route.KEEP))

    async def _receive(self) -> None:
        delivery = await self.port.receive(PARCELS)
        assert delivery is not None
        await self._take(delivery)

    async def _take(self, delivery: Delivery) -> None:
        """Keep a parcel until it may be merged, and send it where it has to go."""
        if delivery.sender == self.port.name:
            return
        if delivery.message.numbers[0] == Route.ANNOUNCE:
            (self.stale[delivery.sender],) = delivery.message.tensors
            return
        parcel = read(delivery.message, self.layout)
        self.stale.pop(delivery.sender, None)
        self.coverage.add(parcel.spans)
        if parcel.value is not None:
            self.pending.append((max(span.until for span in parcel.spans), parcel))
        sender = self.group.members.index(delivery.sender)
        if parcel.route is Route.FORWARD:
            self._forward(parcel, sender)
        elif parcel.route is Route.DISTRIBUTE:
            self._distribute(parcel, sender)
        if self.hurries:
            await self._send_on()
        elif parcel.route is not Route.KEEP and not self.gathers:
            self.gathers = True
            await self.port.spawn("gather", self._gather())

    async def _gather(self) -> None:
        """Forward together all parcels that come within a step."""
        await self.port.sleep(self._step())
        self.gathers = False
        await self._send_on()

    async def _send_on(self) -> None:
        for sender in self.senders.values():
            await sender.start()

    async def _take_all(self) -> None:
        """Take all that has come; elements that it announces must not be read."""
        while (delivery := await self.port.receive(PARCELS, timeout=0.0)) is not None:
            await self._take(delivery)

    def _ready(self, clock: float) -> Response:
        """All that may be merged at `clock`, in the order of steps."""
        found = [parcel for until, parcel in self.pending if self.conditions.may_merge(until, clock)]
        self.pending = [item for item in self.pending if not self.conditions.may_merge(item[0], clock)]
        found.sort(key=lambda parcel: [(span.until, span.source) for span in parcel.spans])
        return ApplyOnTop([self._contribution(parcel) for parcel in found])

    def _contribution(self, parcel: Parcel) -> Contribution:
        """A parcel as a contribution, which counts as many times as it has sources."""
        assert parcel.value is not None, "others are not kept"
        sources = {span.source for span in parcel.spans}
        last = max(span.until for span in parcel.spans)
        return Contribution(parcel.value, len(sources), clock=int(last) if last < math.inf else self.clock)

    async def _settle(self, until: float) -> None:
        """Receive all updates of steps up to `until`, and forward those that this actor must."""
        self.hurries = True
        await self._send_on()
        while self.slowest < until:
            await self._receive()
        for sender in self.senders.values():
            await sender.settle()

    def _step(self) -> float:
        """The mean seconds of a step; 0 before the first."""
        return (self.port.now() - self.began) / self.clock if self.clock else 0.0

    def _announces(self, nbytes: int, rate: float) -> bool:
        return self.barrier.announces(nbytes / rate if rate else 0.0, self._step())
