"""The place where the tasks of an engine meet in a crew that changes: the driver says who begins, and where the door is now."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.hosts import towards
from polyrhythm.core.processes.rendezvous.places import Attendee
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.door import Door, DoorCaller
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.launchers.driver_link import DriverLink
from polyrhythm.launchers.protocol import TaskOrder

_NUMBERS = 10_000_000


@dataclass(frozen=True, slots=True)
class DriverPlace:
    """The place that the driver of `order` knows, over `link`; this task begins the run, if it `begins`. Implements `MeetingDoor`."""

    order: TaskOrder
    link: DriverLink
    begins: bool

    @property
    def key(self) -> bytes:
        """The secret of the run."""
        return bytes.fromhex(self.order.secret)

    @property
    def shown(self) -> str:
        """The place in sentences."""
        return "the address that the driver knows"

    @property
    def remedy(self) -> str:
        """Nothing is needed: all ask the driver."""
        return ""

    def begin(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door | None:
        """The door of a run, if the driver has this task begin it."""
        return self.take_over(bind, on_call) if self.begins else None

    def take_over(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door:
        """A door at a free port, which the driver is informed of."""
        own = towards(self.order.host) or "127.0.0.1"
        listening, outside = Attendee(0, 1, bind=bind).addresses(lambda: own)
        door = Door(listening, 0, self.key, on_call)
        self.link.send(Message("door", (float(door.address[1]),), outside))
        return door

    def find(self, seconds: float) -> StoreClient:
        """The connection with the door, wherever it is by then."""
        return StoreClient(worker(secrets.randbelow(_NUMBERS)), self._target, seconds, "the first member of the run")

    def check(self) -> None:
        """The driver knows."""
        self.link.door()

    def _target(self) -> StoreTarget | None:
        found = self.link.door()
        return None if found is None else StoreTarget(*found, self.key)
