"""Programs of several clients on the same devices, whose collective operations cannot be interrupted: all devices need one order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.errors import DeadlockError
from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.jobs.questions import ask

_CLIENTS, _DEVICES, _EACH = 2, 4, 3
_SCHEDULER, _FIRST = worker(0), 1 + _CLIENTS
_PACE = 100e-6
"""The mean seconds of a client between two messages."""


class GangScheduling(Protocol):
    """How the collective operations of clients come into the queues of devices."""

    async def request(self, port: Port, collective: int) -> None:
        """What a client does for one of its operations."""

    async def order(self, port: Port) -> None:
        """What the scheduler of the island does."""


@dataclass(frozen=True, slots=True)
class NoOrder:
    """Clients put operations into the queues of all devices themselves."""

    async def request(self, port: Port, collective: int) -> None:
        for device in port.rng("devices").permutation(_DEVICES):
            await port.sleep(float(port.rng("pace").exponential(_PACE)))
            await port.send(worker(_FIRST + int(device)), Message("queue", (float(collective),)))

    async def order(self, port: Port) -> None:
        """There is nobody who does."""


@dataclass(frozen=True, slots=True)
class IslandOrder:
    """One scheduler for all devices of an island gives them the operations of all clients in one order."""

    async def request(self, port: Port, collective: int) -> None:
        await port.sleep(float(port.rng("pace").exponential(_PACE)))
        await port.send(_SCHEDULER, Message("request", (float(collective),)))

    async def order(self, port: Port) -> None:
        for _ in range(_CLIENTS * _EACH):
            delivery = await port.receive("request")
            assert delivery is not None
            for device in range(_DEVICES):
                await port.send(worker(_FIRST + device), Message("queue", delivery.message.numbers))


def race_deadlocks(scheduling: GangScheduling, network: Network, seed: int) -> bool:
    """Whether the devices wait for each other for ever, in a race of clients with three operations each."""

    async def live(port: Port, group: Group) -> Sequence[Tensor]:
        if group.rank == 0:
            await scheduling.order(port)
        elif group.rank < _FIRST:
            for number in range(_EACH):
                await scheduling.request(port, (group.rank - 1) * _EACH + number)
        else:
            await _device(port)
        return ()

    try:
        ask(_FIRST + _DEVICES, live, network, seed)
    except DeadlockError:
        return True
    return False


async def _device(port: Port) -> None:
    """Does the operations in its queue one after another; each ends when all devices are in it."""
    others = [worker(_FIRST + each) for each in range(_DEVICES) if worker(_FIRST + each) != port.name]
    for _ in range(_CLIENTS * _EACH):
        delivery = await port.receive("queue")
        assert delivery is not None
        topic = f"collective/{int(delivery.message.numbers[0])}"
        await port.send_all(others, Message(topic))
        for _ in others:
            await port.receive(topic)
