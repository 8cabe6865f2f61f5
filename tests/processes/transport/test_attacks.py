"""Strangers, and members of a run that would be somebody else, against nodes of this process over real sockets."""

import array
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
import torch
from attackers import Relay, callers, negated, until_closed
from nodes import send, take, within_loop

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport import strangers
from polyrhythm.core.processes.transport.addresses import listen_everywhere
from polyrhythm.core.processes.transport.connector import ConnectionFactory, Connector
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import CALL, LONGEST_CALL, NONCE, PREFIX, Credentials
from polyrhythm.core.processes.transport.wire import MAGIC, VERSION, Tally
from polyrhythm.errors import TamperedError, WireError

SECRET = b"s" * 32
GREETING_BYTES = PREFIX.size + NONCE.size
OPENING = PREFIX.pack(MAGIC, VERSION, 0)
NOBODY_UID = 65534
Start = Callable[..., tuple[Node, Node]]


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[Start]:
    nodes: list[Node] = []

    def start(hosts: tuple[str, str] = ("here", "there"), relay: Relay | None = None) -> tuple[Node, Node]:
        """Two nodes; the first takes `relay` for the second."""
        listeners = {f"worker/{place}": listen_everywhere("127.0.0.1", host) for place, host in enumerate(hosts)}
        nodes.extend(Node(Role(name, SECRET), Wiring(), mine, lambda _: None) for name, mine in listeners.items())
        table = {name: mine.address for name, mine in listeners.items()}
        bent = table if relay is None else {**table, "worker/1": relay.to(table["worker/1"])}
        for node, its in zip(nodes, (bent, table), strict=True):
            node.begin_run(its, 0.0)
            node.start()
        return nodes[0], nodes[1]

    yield start
    for node in nodes:
        node.stop()


def exchange(one: Node, other: Node) -> float:
    """What comes of numbers that one sends the other."""
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.full((50_000,), 2.0),))))
    (message,) = other.complete(take(other.port, "t", 1))
    return float(message.tensors[0].sum())


def rejected(node: Node) -> int:
    found: int = within_loop(node, lambda: node.peers.tally.rejected)
    return found


def losses(node: Node) -> tuple[list[tuple[str, Exception | None]], threading.Event]:
    lost: list[tuple[str, Exception | None]] = []
    heard = threading.Event()

    def note(name: str, why: Exception | None) -> None:
        lost.append((name, why))
        heard.set()

    node.on_connection_lost = note
    return lost, heard


def calling(caller: Node, name: str = "worker/0", secret: bytes = SECRET) -> Connector:
    """A call of `caller`'s loop to worker 1, in another's name."""
    table = caller.peers._factory.table
    factory = ConnectionFactory(caller.loop, Credentials(name, secret), Wiring(), Tally(), {name: table["worker/0"], **table})
    return Connector(factory, "worker/1")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def trickle(connection: socket.socket, seconds: float) -> int:
    """Send a byte every so many seconds until the other end is closed: how many."""
    sent = 0
    connection.settimeout(seconds)
    with suppress(ConnectionError):
        while True:
            connection.sendall(b"\0")
            sent += 1
            with suppress(TimeoutError):
                if not connection.recv(1):
                    return sent
    return sent


# Strangers


def test_a_flood_of_idle_and_of_garbage_connections_stops_no_worker_and_few_are_held_at_once(pair: Start) -> None:
    one, other = pair()
    before = descriptors()
    with callers(other.peers.address, 500) as idle, callers(other.peers.address, 300, os.urandom(200)) as garbage:
        assert exchange(one, other) == 100_000
        assert descriptors() - before - len(idle) - len(garbage) < strangers.MOST_OF_ONE_SOURCE + 10
    assert rejected(other) > 700


def test_a_continued_flood_stops_no_worker(pair: Start) -> None:
    one, other = pair()
    address, over = other.peers.address, threading.Event()

    def flood() -> None:
        held: list[socket.socket] = []
        while not over.is_set():
            held.append(socket.create_connection((address.ip, address.port)))
            if len(held) > 300:
                held.pop(0).close()
        for connection in held:
            connection.close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        assert exchange(one, other) == 100_000
    finally:
        over.set()
        flooding.join()


def test_connections_that_are_reset_at_once_do_no_harm(pair: Start) -> None:
    one, other = pair()
    with callers(other.peers.address, 200) as rude:
        for connection in rude:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, array.array("i", [1, 0]).tobytes())
    assert exchange(one, other) == 100_000


def test_who_sends_a_byte_now_and_then_has_no_more_time_than_others(pair: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "PROOF_SECONDS", 0.2)
    _, other = pair()
    with callers(other.peers.address, 1) as (slow,):
        slow.recv(GREETING_BYTES, socket.MSG_WAITALL)
        slow.sendall(OPENING)
        sent = trickle(slow, 0.02)
    assert 2 < sent < CALL.size
    assert rejected(other) == 1


def test_of_who_sends_more_than_a_handshake_no_more_is_read(pair: Start) -> None:
    _, other = pair()
    with callers(other.peers.address, 1) as (caller,):
        with suppress(ConnectionError):
            caller.sendall(OPENING + CALL.pack(0, 255, 255, bytes(32), bytes(32)) + bytes(1 << 22))
        assert len(until_closed(caller)) <= GREETING_BYTES
    assert LONGEST_CALL < 1024
    assert rejected(other) == 1


def test_a_listener_that_receives_its_own_bytes_sends_no_response(pair: Start) -> None:
    _, other = pair()
    with callers(other.peers.address, 1) as (mirror,):
        mirror.sendall(mirror.recv(GREETING_BYTES, socket.MSG_WAITALL) * 20)
        assert until_closed(mirror) == b""
    assert rejected(other) == 1


def test_a_handshake_that_was_recorded_opens_nothing_when_it_is_sent_again(pair: Start, relay: Relay) -> None:
    one, other = pair(relay=relay)
    assert exchange(one, other) == 100_000
    with callers(other.peers.address, 1, relay.seen[True]) as (replaying,):
        assert len(until_closed(replaying)) <= GREETING_BYTES
    assert rejected(other) == 1
    assert exchange(one, other) == 100_000


def test_who_has_the_secret_cannot_join_under_a_name_that_is_not_in_the_run(pair: Start) -> None:
    one, other = pair()
    over, problems, call = threading.Event(), list[Exception | None](), calling(one, "worker/7")

    def note(why: Exception | None) -> None:
        problems.append(why)
        over.set()

    call.on_over = note
    one.loop.call(call.dial)
    assert over.wait(60)
    assert isinstance(problems[0], WireError)
    assert "expects nobody called worker/7" in str(problems[0])
    assert within_loop(other, lambda: set(other.peers._inbound)) == set()


# Between two hosts


def test_a_relay_that_changes_nothing_learns_nothing(pair: Start, relay: Relay) -> None:
    one, other = pair(relay=relay)
    assert exchange(one, other) == 100_000
    assert len(relay.seen[True]) > 200_000
    assert torch.full((4,), 2.0).numpy().tobytes() not in relay.seen[True]
    assert SECRET not in relay.seen[True] + relay.seen[False]


def sent_again(out: bool, data: bytes) -> bytes:
    return data + data


def left_out(out: bool, data: bytes) -> bytes:
    return data[len(data) // 2 :]


@pytest.mark.parametrize("change", [negated, sent_again, left_out], ids=lambda it: it.__name__)
def test_a_relay_that_changes_what_it_carries_is_found_at_once_and_the_peer_is_named(
    pair: Start, relay: Relay, change: Callable[[bool, bytes], bytes]
) -> None:
    one, other = pair(relay=relay)
    assert exchange(one, other) == 100_000
    lost, heard = losses(other)
    relay.change = change
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.full((50_000,), 2.0),))))
    assert heard.wait(60)
    assert lost[0][0] == "worker/0"
    assert isinstance(lost[0][1], TamperedError)
    assert "A record from worker/0 was changed on the way" in str(lost[0][1])
    assert other.complete(take_nothing(other)) is None


async def take_nothing(node: Node) -> object:
    return await node.port.receive("t", timeout=0)


def test_a_relay_that_cuts_what_it_carries_ends_the_connection(pair: Start, relay: Relay) -> None:
    one, other = pair(relay=relay)
    assert exchange(one, other) == 100_000
    (lost, heard), room = losses(other), [60_000]

    def cut(out: bool, data: bytes) -> bytes:
        taken, room[0] = data[: room[0]], max(0, room[0] - len(data))
        return taken

    relay.change = cut
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.full((50_000,), 2.0),))))
    assert heard.wait(60)
    assert lost[0][0] == "worker/0"
    assert other.complete(take_nothing(other)) is None


# Within a host


def test_a_local_stranger_has_his_descriptors_closed_unread(pair: Start) -> None:
    one, other = pair(("here", "here"))
    with ExitStack() as stack:
        file = stack.enter_context(open(os.devnull, "rb"))
        before = descriptors()
        for _ in range(20):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect("\0" + other.peers.address.path)
            for byte in OPENING + bytes(10):
                socket.send_fds(connection, [bytes([byte])], [file.fileno()] * 100)
        assert exchange(one, other) == 100_000
        assert within_loop(other, descriptors) - before < 100  # the sockets of both ends, and what two nodes need


@pytest.mark.parametrize("count", [3, 50], ids=["more than a frame may bring", "more than one read may bring"])
def test_a_peer_that_sends_descriptors_of_no_frame_is_dropped_and_they_are_closed(pair: Start, count: int) -> None:
    one, other = pair(("here", "here"))
    lost, heard = losses(other)
    call, opened = calling(one), threading.Event()
    links: list[FrameLink] = []

    def keep(link: FrameLink) -> None:
        links.append(link)
        opened.set()

    call.on_open = keep
    one.loop.call(call.dial)
    assert opened.wait(60)
    with open(os.devnull, "rb") as file:
        before = within_loop(other, descriptors)
        socket.send_fds(links[0]._socket, [b"P"], [file.fileno()] * count)
        assert heard.wait(60)
        assert within_loop(other, descriptors) <= before
    assert isinstance(lost[0][1], WireError)
    assert "descriptors" in str(lost[0][1])
    within_loop(one, call.abort)


STRANGER = """
import os, socket, sys
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
caller = socket.socket(socket.AF_UNIX)
caller.connect("\\0" + sys.argv[1])
try:
    print(len(caller.recv(1000)))
except ConnectionError:
    print(0)
"""


def test_a_process_of_another_user_is_not_even_greeted(pair: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair(("here", "here"))
    if os.geteuid() != 0:  # nobody else can be had, so this is somebody else
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY_UID)
    command = [sys.executable, "-c", STRANGER, other.peers.address.path, str(NOBODY_UID)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"
    monkeypatch.undo()
    assert rejected(other) == 1
    assert exchange(one, other) == 100_000


def test_a_listener_of_another_user_learns_nothing_of_who_calls_it(pair: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = pair(("here", "here"))
    lost, heard = losses(one)
    monkeypatch.setattr("polyrhythm.core.processes.transport.connector.is_of_this_user", lambda connection: False)
    one.complete(send(one.port, "worker/1", Message("t")))
    assert heard.wait(60)
    assert "belongs to another user" in str(lost[0][1])
