"""Supervised children that cannot be started or understood; the runs in test_launch and test_join start them for real."""

import os
import socket
from collections.abc import Iterator

import pytest

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.rendezvous.local_servers import LocalServers
from polyrhythm.core.processes.spawn import fork_client
from polyrhythm.core.processes.spawn.fork_server import Died, Fork
from polyrhythm.core.processes.spawn.supervisor import Supervisor
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.wire import CONTROL, encode
from polyrhythm.errors import PolyrhythmError, RunError


class FakeForkClient:
    """Starts nothing: the test holds the children's ends of the control links, and reports deaths."""

    def __init__(self, refused: str = "") -> None:
        self.socket, self.theirs = socket.socketpair()
        self.ends: dict[str, socket.socket] = {}
        self.hearts: dict[str, socket.socket] = {}
        self.deaths: list[Died | RunError] = []
        self._refused = refused

    def fork(self, request: Fork, control: socket.socket, beats: socket.socket, job_spec: int) -> None:
        if request.name == self._refused:
            raise RunError("no process")
        self.ends[request.name] = control.dup()
        self.hearts[request.name] = beats.dup()

    def next_death(self) -> Died:
        self.socket.recv(1)
        death = self.deaths.pop(0)
        if isinstance(death, RunError):
            raise death
        return death

    def report(self, death: Died | RunError) -> None:
        self.deaths.append(death)
        self.theirs.send(b"!")

    def close(self) -> None:
        for end in (self.socket, self.theirs, *self.ends.values(), *self.hearts.values()):
            end.close()


class Log:
    """Observes: what was notified, in order."""

    def __init__(self, loop: EventLoop, until: int = 1) -> None:
        self.notes: list[str] = []
        self._loop = loop
        self._until = until

    def came_up(self, child: object) -> None:
        self._note("up")

    def recorded(self, child: object, events: object) -> None:
        self._note("events")

    def received(self, child: object, message: Message) -> None:
        self._note(message.topic)

    def ended(self, child: object) -> None:
        self._note("ended")

    def lost(self, child: object, why: str) -> None:
        self._note(why)

    def raised(self, child: object, error: PolyrhythmError) -> None:
        self._note(str(error))

    def failed(self, error: PolyrhythmError) -> None:
        self._note(str(error))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        if len(self.notes) == self._until:
            self._loop.stop()


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


def spec() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def started(loop: EventLoop, log: Log, *names: str) -> tuple[Supervisor, FakeForkClient]:
    supervisor, client = Supervisor(loop, log), FakeForkClient()
    supervisor.start(client, dict.fromkeys(names, "cpu"), spec())  # type: ignore[arg-type]
    return supervisor, client


def send(client: FakeForkClient, name: str, message: Message) -> None:
    client.ends[name].sendall(b"".join(bytes(part) for part in encode(message, CONTROL)))


def test_where_a_child_cannot_be_started_the_job_spec_is_closed_all_the_same(loop: EventLoop) -> None:
    descriptor, supervisor, client = spec(), Supervisor(loop, Log(loop)), FakeForkClient(refused="server/1")
    with pytest.raises(RunError, match="no process"):
        supervisor.start(client, {"server/0": "cpu", "server/1": "cpu"}, descriptor)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    supervisor.close()
    client.close()


def test_where_no_fork_server_can_be_started_no_job_is_packed(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RunError("no process")

    def pack() -> int:
        raise AssertionError

    monkeypatch.setattr(fork_client, "borrow", fail)
    servers = LocalServers(loop, lambda event: None, lambda problem: None)
    with pytest.raises(RunError, match="no process"):
        servers.start(["server/0"], pack)
    servers.close()


def test_a_child_that_dies_is_lost_after_all_that_it_had_sent(loop: EventLoop) -> None:
    log = Log(loop, until=2)
    supervisor, client = started(loop, log, "server/0")
    send(client, "server/0", Message("ended", (12.0, 3.0, 0.5)))
    client.report(Died("server/0", -9))
    loop.run()
    child = supervisor.children["server/0"]
    assert log.notes == ["ended", "killed by signal 9 (SIGKILL)"]
    assert (child.bytes_sent, child.messages_sent, child.ended) == (12, 3, 0.5)
    assert supervisor.over
    assert supervisor.gone
    supervisor.close()
    client.close()


def test_a_child_that_sends_nonsense_is_a_failure(loop: EventLoop) -> None:
    log = Log(loop)
    supervisor, client = started(loop, log, "server/0")
    client.ends["server/0"].sendall(b"nonsense" * 8)
    loop.run()
    assert log.notes == ["The launcher received a malformed message from server/0: These bytes are not a frame of Polyrhythm's."]
    supervisor.close()
    client.close()


def test_a_fork_server_that_fails_is_reported_once(loop: EventLoop) -> None:
    log = Log(loop)
    supervisor, client = started(loop, log, "server/0")
    client.report(RunError("it has ended"))
    client.theirs.send(b"!")
    loop.run()
    loop.after(0.0, loop.stop)
    loop.run()
    assert log.notes == ["it has ended"]
    supervisor.close()
    client.close()


def test_closing_the_links_is_no_loss(loop: EventLoop) -> None:
    log = Log(loop)
    supervisor, client = started(loop, log, "server/0", "server/1")
    supervisor.close()
    loop.after(0.0, loop.stop)
    loop.run()
    assert log.notes == []
    client.close()
