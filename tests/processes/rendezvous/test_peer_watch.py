"""Beats of joined workers: datagrams that prove themselves, and what their silence means on the same host and on another."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from ports import reserved_port

from polyrhythm.core.kernel.events import AnyEvent, Recorder, Suspected
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.peer_watch import PeerWatch
from polyrhythm.core.processes.rendezvous.places import RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.runtime.beat import NBYTES, Beat
from polyrhythm.core.processes.runtime.beat_sender import mac
from polyrhythm.core.processes.runtime.beats import BeatLimits, Liveness
from polyrhythm.core.processes.runtime.status import StepTracker
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.errors import WireError

HERE = "127.0.0.1"
IPS = dict.fromkeys(("worker/0", "worker/1"), HERE)


@dataclass
class FakeNode:
    """The parts of a node that a watch has to do with; what is sent stays in `sent`."""

    steps: StepTracker = field(default_factory=StepTracker)
    sent: list[Message] = field(default_factory=list)

    @property
    def peers(self) -> SimpleNamespace:
        return SimpleNamespace(address=Address("", "", HERE), send_control=lambda name, message: self.sent.append(message))


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as found:
        yield found


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def watch(node: FakeNode) -> Iterator[PeerWatch]:
    made = PeerWatch(node, BeatLimits(), lambda name: False)  # type: ignore[arg-type]
    made.begin(IPS)
    yield made
    made.close()


def seen(watch: PeerWatch) -> int:
    """The id of the process of worker 1, if a beat of it has come."""
    for _ in range(100):
        watch.look(time.monotonic())
        if watch.observer.pid("worker/1"):
            break
        time.sleep(0.002)
    return watch.observer.pid("worker/1")


def test_one_is_asked_once_and_its_beats_come_with_the_time_of_the_kernel(watch: PeerWatch, node: FakeNode) -> None:
    watch.watch(["worker/1"])
    watch.watch(["worker/1"])
    (asked,) = node.sent
    other = PeerWatch(FakeNode(), BeatLimits(), lambda name: False)  # type: ignore[arg-type]
    other.asked("worker/0", asked)  # before all are connected there
    other.begin(IPS)
    assert seen(watch) == os.getpid()
    other.close()
    now = time.monotonic()
    assert 0 < now - watch.observer.findings(now + 5)["worker/1"].since < 10
    assert watch.observer.findings(now + 5)["worker/1"].verdict is Liveness.UNREACHABLE


def test_nobody_is_asked_before_all_are_connected(node: FakeNode) -> None:
    made = PeerWatch(node, BeatLimits(), lambda name: False)  # type: ignore[arg-type]
    made.watch(["worker/1"])
    assert node.sent == []
    made.close()


def test_what_does_not_prove_itself_is_no_beat(watch: PeerWatch, node: FakeNode) -> None:
    watch.watch(["worker/1"])
    (asked,) = node.sent
    port, tag, key = int(asked.numbers[0]), int(asked.numbers[1]), bytes.fromhex(asked.text)
    good = Beat(5, 1, 77).encode(tag)
    forged = [b"", good, good + bytes(16), Beat(5, 1, 78).encode(tag) + mac(key, good), Beat(5, 1, 77).encode(9) + mac(key, good)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for packet in [*forged, good[: NBYTES - 1] + mac(key, good)]:
            channel.sendto(packet, (HERE, port))
        assert seen(watch) == 0
        for packet in (good, Beat(4, 1, 79).encode(tag)):  # the older one comes again
            channel.sendto(packet + mac(key, packet), (HERE, port))
        assert seen(watch) == 77


@pytest.mark.parametrize(
    "message",
    [
        Message("beats"),
        Message("beats", (1.0, 1.0), "no key"),
        Message("beats", (1.0, 1.0), "00"),
        Message("beats", (0.0, 1.0), "00" * 32),
        Message("beats", (float("inf"), 1.0), "00" * 32),
        Message("beats", (1.0, -1.0), "00" * 32),
    ],
    ids=str,
)
def test_who_asks_without_saying_how_is_an_error(watch: PeerWatch, message: Message) -> None:
    with pytest.raises(WireError, match="did not say how"):
        watch.asked("worker/1", message)


def test_who_asks_twice_is_an_error(watch: PeerWatch) -> None:
    watch.asked("worker/1", Message("beats", (9.0, 1.0), "00" * 32))
    with pytest.raises(WireError, match="twice"):
        watch.asked("worker/1", Message("beats", (9.0, 1.0), "00" * 32))


async def no_service(port: Port, record: Recorder) -> None:
    return None


@pytest.mark.parametrize(("hosts", "expected"), [pytest.param("aa", "stopped", marks=pytest.mark.long), ("ab", "unreachable")])
@pytest.mark.parametrize("stopped", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_joined_worker_that_is_stopped_is_found_by_the_other(port: int, hosts: str, expected: str, stopped: int) -> None:
    def inner(context: WorkerContext) -> Message:
        events: list[AnyEvent] = []
        rank = rank_of(context.port.name)
        os.environ["POLYRHYTHM_HOST_ID"] = hosts[rank]
        job = Job(2, 0, lambda context: None, no_service, lambda name: True)
        joined = enter(job, events.append, RankEnvironment(rank, 2, RankZero(port=port)))
        if rank == stopped:
            time.sleep(1.0)
            pid = os.getpid()
            if os.fork() == 0:
                time.sleep(3.6)
                os.kill(pid, signal.SIGCONT)
                os._exit(0)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1.0)
        else:
            time.sleep(5.5)
        joined.leave()
        found = [event for event in events if isinstance(event, Suspected)]
        return Message("end", tuple(event.time - event.since for event in found), " ".join(event.verdict for event in found))

    results = Processes().execute(Job(2, 0, inner, no_service, lambda name: True), lambda event: None).results
    other = results[f"worker/{1 - stopped}"]
    assert other is not None
    assert other.text == f"{expected} alive"
    assert other.numbers[0] < 3.5
