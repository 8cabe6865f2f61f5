"""A server's role for one part of the weights on a ring: it holds the part as the primary, or a copy until it is the primary."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.chain import Chain
from polyrhythm.topology.server_ring.led_part import RoleSettings
from polyrhythm.topology.server_ring.primary import Primary
from polyrhythm.topology.server_ring.ring_records import INBOX, RingMessage, control_message, scope_of
from polyrhythm.topology.server_ring.shard_copy import ShardCopy
from polyrhythm.topology.servers.server_records import to_numbers


class ShardRole:
    """Keeps what the primary of `chain` sends down it, and is the primary when it is the first that lives.

    `earlier` is the state from before the crew changed, or of the run that is resumed. It ends when every worker that was not lost has
    said goodbye: until then the primary may be lost, and a copy be needed.
    """

    def __init__(self, shard: int, chain: Chain, settings: RoleSettings, endpoint: ServerEndpoint) -> None:
        self.shard = shard
        self.chain = chain
        self.settings = settings
        self.base = endpoint.port
        self.port = endpoint.port.scoped(scope_of(shard))
        group = Group(endpoint.group.name, endpoint.group.members, shard, endpoint.group.seed)
        checkpoints = endpoint.checkpoints.of(endpoint.group.members[shard])
        self.endpoint = replace(endpoint, group=group, port=self.port, snapshots=Snapshots(0), checkpoints=checkpoints)
        self.view = View.of(endpoint.workers)
        self.left: set[str] = set()
        self.early: deque[Delivery] = deque()
        self.copy = ShardCopy(chain, self.port)
        self.earlier: StateTree = None
        self.primary: Primary | None = None

    @property
    def over(self) -> bool:
        """True if no worker needs this part any more."""
        return self.left.issuperset(self.view.members)

    async def live(self) -> None:
        """Hold the part until it is over."""
        self.endpoint.checkpoints.resume(self._resume, self.export)
        while not self.over and self.chain.primary != self.port.name:
            await self._take(await self.receive())
        if not self.over:
            early, self.early = list(self.early), deque()
            self.primary = Primary(self, early)
            await self.primary.live()

    def _resume(self, state: StateTree) -> None:
        self.earlier = state

    def export(self) -> StateTree:
        """The newest state of the part that this server has: of a run that is resumed, or of an earlier view, where none has come since."""
        tree = self.copy.tree if self.primary is None else self.primary.tree()
        pending = () if self.primary is None else self.primary.shard.pending
        waiting = [(each.sender, to_numbers(each.push), each.packet) for each in pending]
        return self.earlier if tree is None else {**tree, "workers": list(self.endpoint.workers), "pending": waiting}

    async def receive(self) -> Delivery:
        """The next message about this part."""
        delivery = await self.port.receive(INBOX)
        assert delivery is not None
        return delivery

    async def _take(self, delivery: Delivery) -> None:
        """As a replica: requests come before a notice that the primary was lost, and wait for it."""
        match RingMessage(int(delivery.message.numbers[0])):
            case RingMessage.REQUEST:
                self.early.append(delivery)
            case RingMessage.STATE:
                await self.copy.take(delivery)
            case RingMessage.GOODBYE:
                self.left.add(delivery.sender)

    async def lose(self, name: str) -> None:
        """An actor was lost."""
        if self.view.present(name):
            self.view = self.view.without(name)
            await self.port.send(self.port.name, Message(GONE, text=name))
        elif not self.chain.lose(name):
            return
        await self.port.send(self.port.name, control_message(RingMessage.WAKE, text=name))
