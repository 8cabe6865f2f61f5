"""The places where the processes of a crew that changes meet: each kind says who keeps a door, and how the others find it.

`CrewEntrance` looks for one. Without a launcher it is a `CrewPlace`, where whoever has the secret may come.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch.distributed as dist

from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.hosts import Names, is_loopback, is_own
from polyrhythm.core.processes.rendezvous.launchers import LAUNCHERS, Variables, number
from polyrhythm.core.processes.rendezvous.places import DEFAULT_PORT
from polyrhythm.core.processes.rendezvous.secret import given_secret
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.dialogue import PUBLIC
from polyrhythm.core.processes.store.door import Door, DoorCaller
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.errors import CompositionError, RunError

_ELSEWHERE_SECONDS = 2.0
_NUMBERS = 10_000_000
"""A caller has no name yet: it draws a number, which no other draws at the same time."""


class MeetingDoor(Protocol):
    """A place where a run has its door, which the first member keeps."""

    @property
    def key(self) -> bytes:
        """What all who come need."""

    @property
    def shown(self) -> str:
        """The place in sentences."""

    @property
    def remedy(self) -> str:
        """What to do where nobody would look for a door in this process."""

    def begin(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door | None:
        """The door of a run that begins here; None if somebody else begins it."""

    def take_over(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door | None:
        """The door of a run whose first member is now here; None if nobody would look for it here. Raises OSError as `Door`."""

    def find(self, seconds: float) -> StoreClient:
        """The connection with the door. Raises RunError if there is none within `seconds`."""

    def check(self) -> None:
        """Raise RunError where those who have not come yet will not come."""


@dataclass(frozen=True, slots=True)
class CrewPlace:
    """`hosts`, each a name or an address, at one of which the first member of the run listens at `port`.

    The process at the first of them begins the run. When that member is lost or leaves, the next one whose host is among them takes over.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = DEFAULT_PORT
    names: Names = field(default=Names())

    @staticmethod
    def of(given: Variables) -> CrewPlace:
        """The place that MASTER_ADDR and MASTER_PORT name. Raises CompositionError where a launcher has started one number of workers."""
        launcher = next((each.name for each in LAUNCHERS if each.shows(given)), None)
        if launcher is None and dist.is_available() and dist.is_initialized():
            launcher = "a process group of torch.distributed"
        if launcher is not None:
            raise CompositionError(
                f"The workers of pr.join may change, and this process belongs to one number of them (of {launcher}): give no workers, or "
                "start each process by hand, without RANK and WORLD_SIZE."
            )
        hosts = tuple(host.strip() for host in given.get("MASTER_ADDR", "127.0.0.1").split(",") if host.strip())
        if not hosts:
            raise CompositionError("MASTER_ADDR is empty: set it to the address of the host that begins the run, such as 10.0.0.1.")
        return CrewPlace(hosts, number(given, "MASTER_PORT", DEFAULT_PORT))

    @property
    def key(self) -> bytes:
        """What all who come need."""
        return given_secret() or PUBLIC

    @property
    def shown(self) -> str:
        """The place in sentences."""
        return f"{' or '.join(self.hosts)}, port {self.port}"

    @property
    def remedy(self) -> str:
        """More hosts."""
        return "Set MASTER_ADDR to several hosts, such as 10.0.0.1,10.0.0.2, for all processes."

    def own(self, hosts: tuple[str, ...]) -> Iterator[str]:
        """The addresses of `hosts` that are of this host, loopback first."""
        for host in hosts:
            yield from sorted(filter(is_own, self.names.addresses(host)), key=lambda ip: not is_loopback(ip))

    def begin(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door | None:
        """The door of a run that begins here; None if this is not the host for that, or if somebody has begun one."""
        ip = next(self.own(self.hosts[:1]), "")
        if not ip or (len(self.hosts) > 1 and self._elsewhere()):
            return None
        try:
            return Door(bind or ip, self.port, self.key, on_call)
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return None
            raise RunError(
                f"Nothing can listen at {bind or ip}:{self.port} ({problem.strerror}): set MASTER_PORT to another port."
            ) from None

    def _elsewhere(self) -> bool:
        """True if a door is open at one of the other hosts."""
        try:
            CrewPlace(self.hosts[1:], self.port, self.names).find(_ELSEWHERE_SECONDS).close()
        except RunError:
            return False
        return True

    def take_over(self, bind: str, on_call: Callable[[DoorCaller], None]) -> Door | None:
        """The door of a run whose first member is now at this host; None if nobody would look for it here. Raises OSError as `Door`."""
        ip = next(replace(self, names=Names(0.0)).own(self.hosts), "")  # the loop's thread cannot wait for names
        return Door(bind or ip, self.port, self.key, on_call) if ip else None

    def check(self) -> None:
        """Nobody knows."""

    def find(self, seconds: float) -> StoreClient:
        """The connection with the door. Raises RunError if there is none within `seconds`."""
        ips = [ip for host in self.hosts for ip in self.names.addresses(host)]
        turns = 0

        def target() -> StoreTarget:
            nonlocal turns
            turns += 1
            return StoreTarget(ips[(turns - 1) % len(ips)], self.port, self.key)

        return StoreClient(worker(secrets.randbelow(_NUMBERS)), target, seconds, f"the first member of the run at {self.shown}")


def here() -> CrewPlace:
    """The place that the variables of this process name."""
    return CrewPlace.of(os.environ)
