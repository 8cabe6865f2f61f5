"""Measures the round trip of a message to the others and back."""

from __future__ import annotations

import math

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

_PROBE, _ECHO = "probe", "echo"


class RoundTripMeter:
    """`longest` is the round trip to the farthest of the others, in seconds; infinite until all have responded."""

    def __init__(self, port: Port, group: Group) -> None:
        self.port = port
        self.group = group
        self.longest = math.inf

    async def begin(self) -> None:
        """Respond to the others' probes from now on, and send them mine."""
        await self.port.spawn("echo", self._echo())
        await self.port.spawn("probe", self._probe())

    async def _echo(self) -> None:
        while True:
            delivery = await self.port.receive(_PROBE)
            assert delivery is not None
            await self.port.send(delivery.sender, Message(_ECHO))

    async def _probe(self) -> None:
        began = self.port.now()
        for name in self.group.members:
            if name != self.port.name:
                await self.port.send(name, Message(_PROBE))
        for _ in self.group.members[1:]:
            await self.port.receive(_ECHO)
        self.longest = self.port.now() - began
