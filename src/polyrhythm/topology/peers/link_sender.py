"""One worker's packets to one other: one at a time, and values that are put meanwhile go with the next."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.peers.peer_inbox import UPDATES, PeerInbox, PeerUpdate

_LOOKS_AGAIN = 0.05
"""Seconds after which the rate is asked again: that of a connection that has carried little yet is not reliable."""


class LinkSender:
    """`pending` is what has not been encoded yet; while it is `busy`, a packet is on its way out."""

    def __init__(self, to: str, inbox: PeerInbox, initial: InitialState, group: Group) -> None:
        self.to = to
        self.inbox = inbox
        self.port = inbox.port
        self.model_state = initial.model_state
        self.context = ExchangeContext(group, self.port.rng(f"codec {to}"), controls=initial.controls).to(to)
        self.state: State = inbox.codec.initial(inbox.layout)
        self.pending: Tensor | None = None
        self.update = PeerUpdate(0.0)
        self.busy = False
        self.empty = Latch()

    async def put(self, value: Tensor, update: PeerUpdate) -> None:
        """Send `value` (numel,), at once or added to the pending one: then the sum counts as the value that was put last."""
        self.pending = value if self.pending is None else self.pending + value
        self.update = update
        if not self.busy:
            self.busy = True
            self.empty = Latch()
            await self.port.spawn(f"to {self.to}", self._send())

    async def _send(self) -> None:
        while (value := self.pending) is not None and self.to in self.inbox.clocks:
            self.pending = None
            context = self.context.at(int(self.update.clock), lambda: self.model_state.weights, self.model_state.factors)
            encoded = self.inbox.codec.encode(value, self.inbox.layout, self.state, context)
            self.state = encoded.state
            message = Message(UPDATES, self.update.to_numbers(), tensors=encoded.packet)
            await self._leave(message, wire_bytes(message))
        self.busy = False
        self.empty.open()

    async def _leave(self, message: Message, nbytes: int) -> None:
        """Send, and wait until it has left. What the system's buffers took is still on its way; what followed it would be old by then."""
        began = self.port.now()
        self.context.controls.leaves(self.to, nbytes)
        await self.port.send(self.to, message)
        while True:
            rate = await self.port.flush(self.to, rated=True)
            seconds = nbytes / rate if rate else self.port.now() - began
            if (left := began + seconds - self.port.now()) <= 0:
                break
            await self.port.sleep(min(left, _LOOKS_AGAIN))
        self.context.controls.sent(self.to, nbytes, seconds)

    async def drain(self) -> None:
        """Wait until nothing is pending or on its way out."""
        if self.busy:
            await self.port.wait(self.empty)

    def residual(self) -> Tensor:
        """The sum of values that were put and not sent (numel,)."""
        kept = self.inbox.codec.residual(self.state, self.inbox.layout)
        return kept if self.pending is None else kept + self.pending

    def export(self) -> StateTree:
        """The state for a checkpoint, after `drain`."""
        return {"codec": self.state, "update": (self.update.clock, list(self.update.rates), self.update.samples)}

    def restore(self, state: StateTree) -> None:
        self.state = state["codec"]
        clock, rates, samples = state["update"]
        self.update = PeerUpdate(clock, tuple(rates), samples)
