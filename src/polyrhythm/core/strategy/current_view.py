"""The one view that an actor has of its run, and its notices of losses to every part of the actor that needs them."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import View


class CurrentView:
    """`now` is the view of the workers on `mesh` and of the `servers`; each topic given to `subscribe` gets the name of all who leave.

    One actor may serve several models, and each must be notified of every loss, also of those before it started. It then applies the
    notice to a view of its own, so that what came before the notice still counts.
    """

    def __init__(self, port: Port, mesh: WorkerMesh, servers: Sequence[str], lost: Sequence[str] = ()) -> None:
        self.port = port
        self.mesh = mesh
        self.started = False
        self.now = View.of(mesh.members + tuple(servers)).without(*lost)
        self.topics: list[str] = []

    @property
    def lost_servers(self) -> list[str]:
        """The servers that were lost, in order."""
        return [name for name in self.now.left if not is_worker(name)]

    async def begin(self) -> None:
        """Listen from now on; further calls do nothing."""
        if not self.started:
            self.started = True
            await self.port.spawn("losses", self._listen())

    async def subscribe(self, topic: str) -> None:
        """Send the names under `topic` too, beginning with those of earlier losses."""
        self.topics.append(topic)
        for name in self.now.left:
            await self.port.send(self.port.name, Message(topic, text=name))

    async def _listen(self) -> None:
        while True:
            delivery = await self.port.receive("lost")
            assert delivery is not None
            before, self.now = self.now, self.mesh.after_loss(self.now, delivery.message.text)
            for name in self.now.left[len(before.left) :]:
                for topic in self.topics:
                    await self.port.send(self.port.name, Message(topic, text=name))
