"""The way by which a process comes into a run: with a fixed number of others, or into a crew that changes.

`JoinedRun` asks its entrance for what it needs to know of the others, and has it follow them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import FIRST, worker
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.rendezvous.joined_stop import JoinedStop
from polyrhythm.core.processes.rendezvous.launcher_process import launcher_process
from polyrhythm.core.processes.rendezvous.loss_policy import LossPolicy
from polyrhythm.core.processes.rendezvous.negotiation import collectives, compare, device_of
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.rendezvous.rendezvous import Rendezvous
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.failure import failure_message
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.transport.addresses import Address, Listeners, listen_everywhere
from polyrhythm.errors import PolyrhythmError, Stopped

HOST = "POLYRHYTHM_HOST_ID"


class StopRequest(Protocol):
    """What follows where this process is asked to end."""

    def ask(self, problem: Stopped) -> None:
        """Ask it to end; called in a signal handler."""

    def close(self) -> None:
        """The program is on its way out: nothing breaks it off any more."""

    def explained(self, problem: Stopped, lost: Sequence[str]) -> PolyrhythmError | Stopped:
        """The error of this worker, which `problem` ended; without those that are `lost` the run has continued."""


@dataclass(slots=True)
class Following:
    """How a worker follows the others: who is `lost`, what a `stop` does, `others` that must end before it may leave.

    `departed` is true when it has left with notice, and `survivable` if the others continue without it where it is interrupted. `first` is
    the first of the workers, which has the result.
    """

    lost: list[str]
    stop: StopRequest
    others: Callable[[], list[str]]
    departed: Callable[[], bool]
    survivable: bool
    failure: Callable[[BaseException], Message]
    """The message to the others that this worker has failed."""
    first: Callable[[], str] = lambda: FIRST


class Entrance(Protocol):
    """One way into a run."""

    @property
    def name(self) -> str:
        """The name of this worker."""

    @property
    def address(self) -> str:
        """The address of this host to listen at."""

    def agree(self, facts: Facts) -> tuple[bytes, str]:
        """The run's secret and the device of this worker. Raises CompositionError where others were started with other `facts`."""

    def listen(self) -> Listeners:
        """The sockets at which the others reach this worker."""

    def members(self, job: Job) -> list[str]:
        """The workers that are there when this one comes."""

    def exchange(self, mine: dict[str, Address], names: Sequence[str]) -> dict[str, Address]:
        """The addresses of everyone, once `mine`, those of this process, are known to all. `names` are the actors of the job."""

    def follow(self, node: Node, monitor: PeerMonitor, context: NodeContext, job: Job, record: Recorder) -> Following:
        """Begin to follow the others, before anybody is connected."""

    def connected(self, node: Node, names: Sequence[str]) -> bool:
        """True if this worker is connected with all of `names` that are still there; in the loop's thread."""

    def complete(self, node: Node, job: Job, table: dict[str, Address], use: Callable[[dict[str, GroupReducer]], None]) -> None:
        """All are connected: `use` faster ways to sums, if there are any."""

    def close(self, error: BaseException | None = None) -> None:
        """Give back what was needed to meet; `error` has ended this worker, if given."""


class FixedEntrance:
    """The entrance of one rank, with all others, by `rendezvous`."""

    def __init__(self, rendezvous: Rendezvous) -> None:
        self._rendezvous = rendezvous
        self.name = worker(rendezvous.rank)
        self.address = rendezvous.bind

    def agree(self, facts: Facts) -> tuple[bytes, str]:
        """Compare them with those of all ranks; the secret is that of this rendezvous."""
        compare(self._rendezvous, facts, self.name)
        return self._rendezvous.secret(), device_of(self._rendezvous)

    def listen(self) -> Listeners:
        """A local socket and a port of that address."""
        return listen_everywhere(self.address, os.environ.get(HOST, ""))

    def members(self, job: Job) -> list[str]:
        """All workers of the job."""
        return list(workers(job.workers))

    def exchange(self, mine: dict[str, Address], names: Sequence[str]) -> dict[str, Address]:
        """Publish and read them in the store."""
        for name, address in mine.items():
            self._rendezvous.publish(name, replace(address, ip=self._rendezvous.ip))
        return self._rendezvous.table(names)

    def follow(self, node: Node, monitor: PeerMonitor, context: NodeContext, job: Job, record: Recorder) -> Following:
        """Each decides for itself what follows a loss, and all come to the same."""
        losses = LossPolicy(node, job.essential, record)
        losses.on_loss = monitor.lose
        stop = JoinedStop(node, monitor, workers(job.workers), job.essential, launcher_process())
        stop.grace = job.grace
        others = [name for name in workers(job.workers) if name != self.name]
        return Following(
            losses.lost, stop, lambda: others, lambda: False, not job.essential(self.name), partial(failure_message, self.name)
        )

    def connected(self, node: Node, names: Sequence[str]) -> bool:
        """All are needed."""
        return node.peers.connected(names)

    def complete(self, node: Node, job: Job, table: dict[str, Address], use: Callable[[dict[str, GroupReducer]], None]) -> None:
        """Share memory or form communicators, over the store."""
        hosts = {name: address.host for name, address in table.items()}
        use(collectives(self._rendezvous, job, hosts, node.device, node.peers.count))
        if node.device == "cpu":
            self._rendezvous.close()
        else:  # communicators are formed when they are needed first
            self._rendezvous.stop_listening()

    def close(self, error: BaseException | None = None) -> None:
        """Leave the store."""
        self._rendezvous.close(error)
