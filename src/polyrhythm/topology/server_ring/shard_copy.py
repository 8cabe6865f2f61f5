"""Chain replication: what a primary has merged goes from server to server, and counts when the last has it."""

from __future__ import annotations

from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.chain import Chain
from polyrhythm.topology.server_ring.ring_records import INBOX, RingMessage, control_message
from polyrhythm.topology.server_ring.state_changes import Changes, StateChanges


class ShardCopy:
    """One server's copy of a part's state: at the primary what it has sent last, at the others what they have received.

    States are numbered. A replica that misses the one before a change leaves it: the primary sends a whole state when a server is lost.
    """

    def __init__(self, chain: Chain, port: Port) -> None:
        self.chain = chain
        self.port = port
        self.number = 0
        self.stored = 0
        self.state = StateChanges()

    @property
    def tree(self) -> StateTree:
        """A copy of the last state; None where there was none yet."""
        return self.state.tree if self.number else None

    async def send(self, tree: StateTree) -> None:
        """As the primary, send the next state; it is stored when `stored` is its number."""
        self.number += 1
        await self._pass_on(self.state.encode(tree, whole=False), base=self.number - 1)

    async def send_again(self) -> None:
        """As the primary, send the last state whole, since a server of the chain was lost, or another was primary before."""
        if self.number:
            await self._pass_on(self.state.encode(self.state.tree, whole=True), base=0)

    async def _pass_on(self, changes: Changes, base: int) -> None:
        after = self.chain.next(self.port.name)
        if after is None:
            self.stored = self.number
            return
        numbers = (float(RingMessage.STATE), float(self.number), float(base), *changes.modes)
        await self.port.send(after, Message(INBOX, numbers, changes.text, changes.tensors))

    async def take(self, delivery: Delivery) -> None:
        """As a replica, take a state from the server before, and forward it to the next; the last one acknowledges it."""
        message = delivery.message
        _, number, base, *modes = message.numbers
        if number < self.number or (base and base != self.number):
            return
        self.number = int(number)
        self.state.decode(Changes(tuple(modes), message.text, message.tensors))
        after = self.chain.next(self.port.name)
        if after is None:
            await self.port.send(self.chain.primary, control_message(RingMessage.STORED, number))
        else:
            await self.port.send(after, Message(INBOX, message.numbers, message.text, message.tensors))
