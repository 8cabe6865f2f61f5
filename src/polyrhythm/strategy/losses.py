"""The news of lost actors, for all in one actor who want it."""

from __future__ import annotations

from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port


class Losses:
    """Says again what the runtime says once: the topics of `tell` each get a message with the name of every actor that was lost.

    One actor may serve several models, and each must hear of a loss, also of those before it began.
    """

    def __init__(self, port: Port) -> None:
        self.port = port
        self.begun = False
        self.gone: list[str] = []
        self.topics: list[str] = []

    async def begin(self) -> None:
        """Listen from now on, if nobody has asked for it yet."""
        if not self.begun:
            self.begun = True
            await self.port.spawn("losses", self._listen())

    async def tell(self, topic: str) -> None:
        """Send the names under `topic` too."""
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
