"""Large messages over several connections, between nodes of one process that count as being on different hosts."""

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from nodes import flush, send, take, within_loop

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport import connector
from polyrhythm.core.processes.transport.addresses import Address, listen_everywhere, open_socket
from polyrhythm.core.processes.transport.connector import ConnectionFactory, Connector
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.lanes import LEAST
from polyrhythm.core.processes.transport.wire import Limits, Stripe, Tally, encode, encode_stripe
from polyrhythm.errors import CompositionError, DeadlockError, WireError

SECRET = b"s" * 32
LANES = 4
SPREAD = Wiring(lanes=LANES, fewest_lanes=LANES)
Pair = Callable[..., tuple[Node, Node]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    nodes: list[Node] = []

    def start(wiring: Wiring = SPREAD, hosts: tuple[str, str] = ("here", "there")) -> tuple[Node, Node]:
        listeners = [listen_everywhere("127.0.0.1", host) for host in hosts]
        names = ["worker/0", "worker/1"]
        nodes.extend(Node(Role(name, SECRET), wiring, mine, lambda _: None) for name, mine in zip(names, listeners, strict=True))
        for node in nodes:
            node.begin_run({name: mine.address for name, mine in zip(names, listeners, strict=True)}, 0.0)
            node.start()
        return nodes[0], nodes[1]

    yield start
    for node in nodes:
        node.stop()


def spread(one: Node, other: Node) -> None:
    """Send until the lanes are open: they are opened behind the first large message."""
    large = Message("warm", tensors=(torch.ones(LEAST),))
    while within_loop(one, lambda: one.peers.lanes("worker/1")) < LANES:
        one.complete(send(one.port, "worker/1", large))
        other.complete(take(other.port, "warm", 1))
    while within_loop(other, lambda: len(other.peers._inbound["worker/0"]._links)) <= LANES:  # it learns of a lane later than who opened it
        pass


def test_messages_of_all_sizes_come_in_order_and_are_counted_as_without_lanes(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    before, count, moved = one.peers.bytes_sent, one.peers.messages_sent, within_loop(one, lambda: one.peers.moved)
    sizes = [1, 300_000, 0, 20_000, 700_000, 3, 100_000, LEAST // 4, LEAST // 4 - 1]
    messages = [Message("t", (place,), "x", (torch.full((size,), float(place)), torch.ones(2, 3))) for place, size in enumerate(sizes)]
    askew = Message("t", (9.0,), tensors=(torch.ones(LEAST + 1, dtype=torch.uint8), torch.arange(5.0)))
    one.complete(send(one.port, "worker/1", *messages, askew))
    received = other.complete(take(other.port, "t", len(sizes) + 1))
    for sent, got in zip([*messages, askew], received, strict=True):
        assert got.numbers == sent.numbers
        assert all(torch.equal(a, b) for a, b in zip(sent.tensors, got.tensors, strict=True))
    assert one.peers.bytes_sent - before == sum(map(wire_bytes, [*messages, askew]))
    assert one.peers.messages_sent - count == len(sizes) + 1
    assert within_loop(one, lambda: one.peers.moved) - moved > one.peers.bytes_sent - before


def test_both_directions_may_be_spread_at_once(pair: Pair) -> None:
    one, other = pair()

    async def exchange(port: Port, to: str) -> float:
        total = 0.0
        for number in range(30):
            await port.send(to, Message("t", tensors=(torch.full((150_000,), float(number)),)))
            (message,) = await take(port, "t", 1)
            assert bool((message.tensors[0] == number).all())
            total += float(message.tensors[0][0])
        return total

    sums: list[float] = []
    threads = [
        threading.Thread(target=lambda node=node, to=to: sums.append(node.complete(exchange(node.port, to))))  # type: ignore[misc]
        for node, to in ((one, "worker/1"), (other, "worker/0"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [435.0, 435.0]
    assert within_loop(one, lambda: one.peers.lanes("worker/1")) == LANES


@pytest.mark.parametrize(
    ("wiring", "hosts"),
    [(SPREAD, ("here", "here")), (Wiring(), ("here", "there")), (Wiring(lanes=1, fewest_lanes=4), ("here", "there"))],
    ids=["within a host", "on a short path", "turned off"],
)
def test_there_are_no_lanes_where_they_are_of_no_use(pair: Pair, wiring: Wiring, hosts: tuple[str, str]) -> None:
    one, other = pair(wiring, hosts)
    for _ in range(20):
        one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(100_000),))))
        other.complete(take(other.port, "t", 1))
    assert within_loop(one, lambda: one.peers.lanes("worker/1")) == 0


def test_a_flush_waits_for_the_lanes_and_the_end_message_for_all_that_was_sent(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    messages = [Message("t", (float(place),), tensors=(torch.ones(500_000),)) for place in range(20)]

    async def send_and_flush() -> None:
        await send(one.port, "worker/1", *messages)
        await one.port.flush()

    one.complete(send_and_flush())
    gone = threading.Event()
    one.loop.call(lambda: one.finish(gone.set))
    assert gone.wait(60)
    assert [message.numbers[0] for message in other.complete(take(other.port, "t", 20, "worker/0"))] == list(range(20))
    with pytest.raises(DeadlockError, match="worker/1 waits for 't' from worker/0, which has ended"):
        other.complete(take(other.port, "t", 1, "worker/0"))


def noting(node: Node) -> tuple[list[tuple[str, Exception | None]], threading.Event]:
    lost: list[tuple[str, Exception | None]] = []
    done = threading.Event()

    def note(name: str, why: Exception | None) -> None:
        lost.append((name, why))
        done.set()

    node.on_connection_lost = note
    return lost, done


def calling(caller: Node, lane: int, name: str = "worker/0", secret: bytes = SECRET) -> tuple[ConnectionFactory, Connector]:
    """A call of `caller`'s loop to worker 1, in another's name."""
    table = caller.peers._factory.table
    factory = ConnectionFactory(caller.loop, Credentials(name, secret), Wiring(), Tally(), {name: table["worker/0"], **table})
    return factory, Connector(factory, "worker/1", lane)


@pytest.mark.parametrize("refuses", ["the listener", "the system"])
def test_a_lane_that_cannot_be_opened_is_done_without(pair: Pair, refuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair()
    lost, _ = noting(one)
    one.complete(send(one.port, "worker/1", Message("t")))
    other.complete(take(other.port, "t", 1))
    dialled: list[str] = []

    def refuse(address: Address, host: str) -> Any:
        dialled.append(host)
        if refuses == "the system":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_socket(closed, host)

    monkeypatch.setattr(connector, "open_socket", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = Address("nowhere", "", "127.0.0.1", server.getsockname()[1])
    for _ in range(3):
        one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(100_000),))))
        (got,) = other.complete(take(other.port, "t", 1))
        assert float(got.tensors[0].sum()) == 100_000
    assert lost == []
    assert within_loop(one, lambda: one.peers.lanes("worker/1")) == 0
    assert 1 <= len(dialled) <= (1 if refuses == "the system" else LANES)


def test_a_lane_that_dies_ends_the_connection_for_both_once(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    lost, done = noting(one)
    heard_there, done_there = noting(other)
    # as if the line of this one alone had been cut
    within_loop(other, lambda: other.peers._inbound["worker/0"]._links[2].close(OSError("cut")))
    assert done.wait(60)
    assert done_there.wait(60)
    assert [name for name, _ in lost] == ["worker/1"]
    assert [(name, str(why)) for name, why in heard_there] == [("worker/0", "cut")]
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(LEAST),))))  # goes nowhere, and does no harm
    one.complete(flush(one.port))


def test_a_lost_actor_takes_its_lanes_with_it(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    descriptors = len(os.listdir("/proc/self/fd"))
    within_loop(one, lambda: one.lose("worker/1"))
    within_loop(other, lambda: other.lose("worker/0"))
    assert within_loop(one, lambda: len(os.listdir("/proc/self/fd"))) <= descriptors - LANES - 1


@pytest.mark.parametrize(
    "data",
    [
        b"".join(map(bytes, encode(Message("t", tensors=(torch.ones(3),))))),
        encode_stripe(Stripe(0, 8, 12), 8) + bytes(8),
        encode_stripe(Stripe(1 << 30, 0, 12), 8) + bytes(8),
    ],
    ids=["an ordinary message", "over the end", "of a message far away"],
)
def test_what_is_no_stripe_or_fits_nowhere_is_counted_and_ends_the_connection(pair: Pair, data: bytes) -> None:
    one, other = pair()
    lost, done = noting(other)
    _, call = calling(one, 1)
    call.on_open = lambda link: link.push([data])
    one.loop.call(call.dial)
    assert done.wait(60)
    assert lost[0][0] == "worker/0"
    assert isinstance(lost[0][1], WireError)
    assert within_loop(other, lambda: other.peers.tally.rejected) == 1
    within_loop(one, call.abort)


@pytest.mark.parametrize(("lane", "secret", "calls"), [(1, b"another", 5), (999, SECRET, 1)], ids=["without the secret", "out of bounds"])
def test_a_lane_that_cannot_be_is_refused(pair: Pair, lane: int, secret: bytes, calls: int) -> None:
    one, other = pair()
    over = threading.Event()
    _, call = calling(one, lane, secret=secret)
    call.on_over = lambda why: over.set()
    one.loop.call(call.dial)
    assert over.wait(60)
    assert within_loop(other, lambda: other.peers.tally.rejected) == calls


def test_the_same_lane_twice_is_refused_and_the_first_goes_on(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    over = threading.Event()
    _, call = calling(one, 3)
    call.on_over = lambda why: over.set()
    one.loop.call(call.dial)
    assert over.wait(60)
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(200_000),))))
    assert float(other.complete(take(other.port, "t", 1))[0].tensors[0].sum()) == 200_000


def test_a_lane_may_be_proved_before_its_connection(pair: Pair) -> None:
    one, other = pair()
    opened: list[FrameLink] = []
    came = threading.Event()
    _, call = calling(one, 9)
    call.on_open = lambda link: (
        opened.append(link),
        link.push([encode_stripe(Stripe(0, 0, 200_000), 100_000), bytes(100_000)]),
        came.set(),
    )  # type: ignore[func-returns-value]
    one.loop.call(call.dial)
    assert came.wait(60)
    message = Message("t", (7.0,), tensors=(torch.zeros(50_000),))
    stripe = [encode_stripe(Stripe(0, 100_000, 200_000), 100_000), bytes(100_000)]

    def send_ahead() -> None:
        outbound = one.peers._reach("worker/1")
        assert outbound._link is not None
        outbound._link.announce(message, 0)
        opened[0].push(stripe)

    within_loop(one, lambda: one.peers.connect(["worker/1"]))
    while not within_loop(one, lambda: one.peers._reach("worker/1").ready):
        pass
    within_loop(one, send_ahead)
    (got,) = other.complete(take(other.port, "t", 1))
    assert got.numbers == (7.0,)
    assert torch.equal(got.tensors[0], message.tensors[0])
    within_loop(one, call.abort)


def test_limits_hold_for_lanes_too(pair: Pair) -> None:
    one, other = pair()
    spread(one, other)
    lost, done = noting(other)
    within_loop(other, lambda: other.peers.restrict("worker/0", Limits(payload=100_000)))
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(25_001),))))
    assert done.wait(60)
    assert isinstance(lost[0][1], WireError)
    assert "100004 bytes" in str(lost[0][1])


def test_no_socket_is_left_after_the_end(pair: Pair) -> None:
    before = {os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _is_socket(number)}
    one, other = pair()
    spread(one, other)
    for node in (one, other):
        node.stop()
        node.stop = lambda: None  # type: ignore[method-assign,assignment]
    after = {os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _is_socket(number)}
    assert after == before


def _is_socket(number: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    except OSError:
        return False


def test_a_call_that_is_given_up_while_it_is_dialled_leaves_nothing(pair: Pair) -> None:
    one, _ = pair()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = len(os.listdir("/proc/self/fd"))
        factory, call = calling(one, 1)
        address = factory.table["worker/1"]
        factory.table["worker/1"] = type(address)("elsewhere", "", "127.0.0.1", silent.getsockname()[1])
        assert within_loop(one, lambda: (call.dial(), call.abort(), len(os.listdir("/proc/self/fd")))[-1]) == before  # type: ignore[func-returns-value]


def test_more_lanes_than_a_peer_takes_in_are_refused_at_once() -> None:
    assert Wiring(lanes=256).lanes == 256
    with pytest.raises(CompositionError, match=r"Wiring\(lanes=257\).*256 or fewer"):
        Wiring(lanes=257)
