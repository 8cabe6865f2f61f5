"""Notices of lost actors, for every part of one actor that needs them."""

from __future__ import annotations

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port


class Losses:
    """Repeats the runtime's notice of a loss: each topic given to `subscribe` gets a message with the name of every lost actor.

    One actor may serve several models, and each must be notified of every loss, also of those before it started.
    """

    def __init__(self, port: Port) -> None:
        self.port = port
        self.started = False
        self.gone: list[str] = []
        self.topics: list[str] = []

    async def begin(self) -> None:
        """Listen from now on; further calls do nothing."""
        if not self.started:
            self.started = True
            await self.port.spawn("losses", self._listen())

    async def subscribe(self, topic: str) -> None:
        """Send the names under `topic` too, beginning with those of earlier losses."""
        self.topics.append(topic)
        for name in self.gone:
            await self.port.send(self.port.name, Message(topic, text=name))

    async def _listen(self) -> None:
        while True:
            delivery = await self.port.receive("lost")
            assert delivery is not None
            self.gone.append(delivery.message.text)
            for topic in self.topics:
                await self.port.send(self.port.name, Message(topic, text=delivery.message.text))
