"""One server of a ring: the primary of one part of the weights, and a replica of those of the servers before it."""

from __future__ import annotations

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.topology.server_ring.chain import chains
from polyrhythm.topology.server_ring.led_part import RoleSettings
from polyrhythm.topology.server_ring.shard_role import ShardRole


class RingServer:
    """Runs its roles concurrently."""

    def __init__(self, settings: RoleSettings, endpoint: ServerEndpoint, replicas: int) -> None:
        self.port = endpoint.port
        self.roles = [
            ShardRole(shard, chain, settings, endpoint)
            for shard, chain in enumerate(chains(endpoint.group.members, replicas))
            if endpoint.port.name in chain.members
        ]

    async def live(self) -> None:
        """Until all roles are over."""
        await follow_losses(self.port, self._lose)
        latches = [Latch() for _ in self.roles]
        for role, latch in zip(self.roles, latches, strict=True):
            await self.port.spawn(f"part {role.shard}", self._play(role, latch))
        for latch in latches:
            await self.port.wait(latch)

    async def _play(self, role: ShardRole, latch: Latch) -> None:
        await role.live()
        latch.open()

    async def _lose(self, name: str) -> None:
        for role in self.roles:
            await role.lose(name)
