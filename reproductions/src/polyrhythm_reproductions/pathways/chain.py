"""Programs of operations one after another on several hosts, whose devices do what their host has put in their queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.jobs.questions import ask

_QUEUE = "~queue"
_CONTROLLER = worker(0)


@dataclass(frozen=True, slots=True)
class DispatchChain:
    """So many `operations`, each of which takes the result of the one before; they go around the `hosts`.

    An operation takes `seconds` of its device, and `preparing` of its host before it is in the device's queue: memory is allocated, and
    the receipt of inputs posted.
    """

    operations: int
    hosts: int
    seconds: float
    preparing: float

    def at(self, operation: int) -> str:
        """The host of an operation; actor 0 is the controller."""
        return worker(1 + operation % self.hosts)

    def of(self, rank: int) -> list[int]:
        """The operations of a host."""
        return [each for each in range(self.operations) if 1 + each % self.hosts == rank]


class Dispatch(Protocol):
    """How hosts come to know what to put in their queues."""

    async def control(self, port: Port, chain: DispatchChain) -> None:
        """What the controller does."""

    async def prepare(self, port: Port, chain: DispatchChain, operation: int) -> None:
        """What a host does before an operation is in its device's queue."""


@dataclass(frozen=True, slots=True)
class SequentialDispatch:
    """An operation is dispatched when the one before is in its queue, since only then its host knows where its result will be."""

    async def control(self, port: Port, chain: DispatchChain) -> None:
        for operation in range(chain.operations):
            await port.send(chain.at(operation), Message(f"dispatch/{operation}"))
            await port.receive(f"queued/{operation}")

    async def prepare(self, port: Port, chain: DispatchChain, operation: int) -> None:
        await port.receive(f"dispatch/{operation}")
        await port.sleep(chain.preparing)
        await port.send(_CONTROLLER, Message(f"queued/{operation}"))


@dataclass(frozen=True, slots=True)
class ParallelDispatch:
    """All operations are dispatched at once: the sizes of their results are known beforehand."""

    async def control(self, port: Port, chain: DispatchChain) -> None:
        for operation in range(chain.operations):
            await port.send(chain.at(operation), Message(f"dispatch/{operation}"))

    async def prepare(self, port: Port, chain: DispatchChain, operation: int) -> None:
        await port.receive(f"dispatch/{operation}")
        await port.sleep(chain.preparing)


@dataclass(frozen=True, slots=True)
class WithoutController:
    """Every host has the program (SPMD), and nobody dispatches."""

    async def control(self, port: Port, chain: DispatchChain) -> None:
        """Nothing."""

    async def prepare(self, port: Port, chain: DispatchChain, operation: int) -> None:
        await port.sleep(chain.preparing)


def chain_seconds(chain: DispatchChain, dispatch: Dispatch, network: Network) -> float:
    """Virtual seconds until the controller has the result."""

    async def live(port: Port, group: Group) -> Sequence[Tensor]:
        if group.rank == 0:
            await dispatch.control(port, chain)
            await port.receive("result")
            return ()
        await port.spawn("device", _device(port, chain, chain.of(group.rank)))
        for operation in chain.of(group.rank):
            await dispatch.prepare(port, chain, operation)
            await port.send(port.name, Message(_QUEUE, (float(operation),)))
        await port.receive("~done")
        return ()

    return ask(1 + chain.hosts, live, network).seconds


async def _device(port: Port, chain: DispatchChain, operations: Sequence[int]) -> None:
    """Does what is in its queue, in that order, each when its input is there."""
    for operation in operations:
        await port.receive(_QUEUE)
        if operation:
            await port.receive(f"input/{operation}")
        await port.sleep(chain.seconds)
        last = operation + 1 == chain.operations
        await port.send(_CONTROLLER if last else chain.at(operation + 1), Message("result" if last else f"input/{operation + 1}"))
    await port.send(port.name, Message("~done"))
