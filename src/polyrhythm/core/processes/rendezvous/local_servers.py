"""The servers that a joined process runs in addition to its program, each in a separate child process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

from polyrhythm.core.kernel.events import AnyEvent, Recorder
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.spawn import fork_client
from polyrhythm.core.processes.spawn.supervisor import SupervisedChild, Supervisor
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import PolyrhythmError, WorkerFailed

_TOGETHER_SECONDS = 1.0
"""A batch system signals all processes of a job, one after the other."""


class LocalServers:
    """Observes the supervisor of these servers; `on_failure` is called in the loop's thread when one failed."""

    def __init__(self, loop: EventLoop, record: Recorder, on_failure: Callable[[PolyrhythmError], None]) -> None:
        self._record = record
        self._on_failure = on_failure
        self._loop = loop
        self._signalled: dict[str, int] = {}
        self._stack = ExitStack()
        self._supervisor = Supervisor(loop, self)

    def start(self, names: Iterable[str], pack: Callable[[], int]) -> None:
        """Start a child for each of `names`, with the job spec that `pack` writes."""
        client = self._stack.enter_context(fork_client.borrow())  # first, so that it imports while the job is packed
        self._supervisor.start(client, dict.fromkeys(names, "cpu"), pack())

    def begin(self, table: Mapping[str, Address], origin: float) -> None:
        """Send everyone's address to the servers."""
        self._supervisor.begin(table, origin)

    def release(self) -> None:
        """Let the servers exit, which have all ended."""
        self._supervisor.release()

    def close(self) -> None:
        """Kill what is left and give everything back; in the loop's thread, or when it is over."""
        self._supervisor.close()
        self._stack.close()

    @property
    def addresses(self) -> dict[str, Address]:
        """The addresses of the servers that are up."""
        return self._supervisor.table

    @property
    def totals(self) -> list[tuple[int, int]]:
        """The bytes and messages that each has sent."""
        return [(child.bytes_sent, child.messages_sent) for child in self._supervisor.children.values()]

    @property
    def up(self) -> bool:
        """True if all have sent their addresses."""
        return self._supervisor.up

    @property
    def over(self) -> bool:
        """True if all have ended well."""
        return self._supervisor.over

    @property
    def gone(self) -> bool:
        """True if no process is left."""
        return self._supervisor.gone

    def came_up(self, child: SupervisedChild) -> None:
        """Its address is in `addresses`."""

    def recorded(self, child: SupervisedChild, events: Iterable[AnyEvent]) -> None:
        """Record the events of a server with those of the worker."""
        for event in events:
            self._record(event)

    def received(self, child: SupervisedChild, message: Message) -> None:
        """A server was sent a signal that asks it to end; where this process was too, it ends them all before."""
        if message.topic == "signalled":
            self._signalled[child.name] = int(message.numbers[0])
            self._loop.after(_TOGETHER_SECONDS, lambda: None if child.dead else child.link.send_control(Message("end", message.numbers)))

    def ended(self, child: SupervisedChild) -> None:
        """A server has ended well: `over` takes it from the supervisor."""

    def lost(self, child: SupervisedChild, why: str) -> None:
        """Report the loss of a server as a failure, unless its actor had ended."""
        if child.ended is None:
            number = self._signalled.get(child.name)
            self._on_failure(WorkerFailed(child.name, why if number is None else failure.exit_reason(-number)))

    def raised(self, child: SupervisedChild, error: PolyrhythmError) -> None:
        """As `failed`."""
        self._on_failure(error)

    def failed(self, error: PolyrhythmError) -> None:
        """Report the failure of a server as one of the worker."""
        self._on_failure(error)
