"""The workers of a crew that changes, as one of them reaches their runtimes; all in the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.rendezvous.residents import Resident
from polyrhythm.core.processes.runtime.node import Node


class CrewLinks:
    """The links of the worker of `node` with all `residents`; `receive` gets what this worker sends to itself.

    `gone` are those that are lost, of whom the others may not be notified yet.
    """

    def __init__(
        self, node: Node, monitor: PeerMonitor, residents: Mapping[str, Resident], receive: Callable[[str, Message], None]
    ) -> None:
        self.name = node.port.name
        self.residents = dict(residents)
        self.gone: set[str] = set()
        self._node = node
        self._monitor = monitor
        self._receive = receive

    @property
    def everybody(self) -> list[str]:
        """All that are there, this worker too."""
        gone = self.gone | self._node.peers.lost
        return [name for name in self.residents if name not in gone and not self._node.has_ended(name)]

    def to(self, name: str, message: Message) -> None:
        """Send `message` to `name`."""
        if name == self.name:
            self._node.loop.call(lambda: self._receive(name, message))
        else:
            self._node.peers.send_control(name, message)

    def learn(self, residents: Mapping[str, Resident]) -> None:
        """These come to the run: expect them."""
        self.residents |= residents
        self._node.peers.set_addresses({name: resident.address for name, resident in self.residents.items()})
        self._monitor.learn({name: resident.address for name, resident in residents.items()})
