"""Several nodes in one process, over real sockets."""

import errno
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from nodes import flush, send, take, within_loop

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport.addresses import Address, listen_everywhere
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.processes.transport.handshake import NONCE, PREFIX
from polyrhythm.core.processes.transport.slots import Outgoing
from polyrhythm.core.processes.transport.wire import Limits, encode
from polyrhythm.errors import DeadlockError, RunError, WireError

SECRET = b"s" * 32
CALLS = 5
Start = Callable[..., list[Node]]


@pytest.fixture
def started() -> Iterator[Start]:
    nodes: list[Node] = []
    addresses: dict[str, Address] = {}

    def start(names: list[str], secrets: tuple[bytes, ...] = (), wiring: Wiring | None = None, hosts: str = "") -> list[Node]:
        for place, name in enumerate(names):
            listeners = listen_everywhere("127.0.0.1", f"{hosts}{place}" if hosts else "")
            secret = secrets[place] if secrets else SECRET
            nodes.append(Node(Role(name, secret), wiring or Wiring(), listeners, lambda _: None))
            addresses[name] = listeners.address
        for node in nodes:
            node.begin_run(addresses, 0.0)
            node.start()
        return nodes

    yield start
    for node in nodes:
        node.stop()


@pytest.mark.parametrize("hosts", ["", "elsewhere"], ids=["one host", "TCP"])
@pytest.mark.parametrize("shared", [0, 1 << 22], ids=["sockets", "shared memory"])
def test_messages_of_all_sizes_come_in_order_and_are_counted_alike(started: Start, hosts: str, shared: int) -> None:
    one, other = started(["worker/0", "worker/1"], hosts=hosts, wiring=Wiring(shared=shared))
    sizes = [1, 300_000, 0, 20_000, 700_000, 3]
    messages = [Message("t", (place,), "x", (torch.full((size,), float(place)), torch.ones(2, 3))) for place, size in enumerate(sizes)]
    one.complete(send(one.port, "worker/1", *messages))
    received = other.complete(take(other.port, "t", len(sizes)))
    for sent, got in zip(messages, received, strict=True):
        assert got.numbers == sent.numbers
        assert all(torch.equal(a, b) for a, b in zip(sent.tensors, got.tensors, strict=True))
    assert one.peers.bytes_sent == sum(map(wire_bytes, messages))
    assert one.peers.messages_sent == len(sizes)


def test_shared_memory_is_used_again_and_what_was_received_stays_as_it_was(started: Start) -> None:
    one, other = started(["worker/0", "worker/1"], wiring=Wiring(shared=1 << 19))
    kept = []
    for round_ in range(20):
        one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.full((60_000,), float(round_)),))))
        (message,) = other.complete(take(other.port, "t", 1))
        assert bool((message.tensors[0] == round_).all())
        if round_ % 5 == 0:
            kept.append(message.tensors[0])
    assert [int(tensor.mean()) for tensor in kept] == [0, 5, 10, 15]


def test_messages_that_pile_up_at_a_slow_reader_take_no_descriptors(started: Start) -> None:
    one, other = started(["worker/0", "worker/1"])
    count = 1500  # more than there are slots for one peer
    message = Message("t", tensors=(torch.ones(17_000),))
    one.complete(send(one.port, "worker/1", message))
    other.complete(take(other.port, "t", 1))
    before = len(os.listdir("/proc/self/fd"))
    one.complete(send(one.port, "worker/1", *[message] * count))
    one.complete(flush(one.port))
    assert len(os.listdir("/proc/self/fd")) < before + 100
    assert all(bool((got.tensors[0] == 1).all()) for got in other.complete(take(other.port, "t", count)))


def test_a_slot_that_is_given_back_twice_is_malformed() -> None:
    slots = Outgoing(1 << 20)
    written = slots.write((torch.ones(20_000),))
    assert written is not None
    os.close(written[1])
    slots.release(0.0)
    for number in (0.0, 7.0, float("nan")):
        with pytest.raises(WireError, match="which it did not have"):
            slots.release(number)


def test_a_closed_connection_gives_its_shared_memory_back(started: Start) -> None:
    def mapped() -> int:
        gc.collect()
        return Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:polyrhythm (deleted)")

    before = mapped()
    one, other = started(["worker/0", "worker/1"])
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(60_000),))))
    (message,) = other.complete(take(other.port, "t", 1))
    assert mapped() > before
    for node, peer in ((one, "worker/1"), (other, "worker/0")):
        within_loop(node, lambda node=node, peer=peer: node.lose(peer))
    while "worker/0" in other.peers._inbound and not other.peers._inbound["worker/0"]._over:
        os.sched_yield()
    assert float(message.tensors[0].sum()) == 60_000  # what was received stays as long as it is held
    del message
    within_loop(other, lambda: None)
    assert mapped() <= before


def test_everybody_may_call_everybody_at_once(started: Start) -> None:
    names = [f"worker/{rank}" for rank in range(5)]
    nodes = started(names)

    async def exchange(port: Port) -> float:
        for name in names:
            await port.send(name, Message("x", (1.0,)))
        return sum(message.numbers[0] for message in await take(port, "x", len(names)))

    sums: dict[str, float] = {}
    threads = [threading.Thread(target=lambda it=node: sums.update({it.port.name: it.complete(exchange(it.port))})) for node in nodes]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == dict.fromkeys(names, 5.0)


def test_who_does_not_know_the_secret_is_counted_and_receives_nothing(started: Start) -> None:
    one, link = started(["worker/0", "worker/1"], secrets=(SECRET, b"another"))
    broken = threading.Event()
    link.on_connection_lost = lambda name, why: broken.set()
    link.complete(send(link.port, "worker/0", Message("t")))
    assert broken.wait(60)
    # it calls again: a listener that is flooded closes connections in the same way
    assert 1 <= within_loop(one, lambda: one.peers.tally.rejected) <= CALLS
    assert within_loop(link, lambda: link.peers.tally.rejected) == 0
    assert one.complete(one_look(one.port)) is None


async def one_look(port: Port) -> Any:
    return await port.receive("t", timeout=0)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"".join(map(bytes, encode(Message("push", tensors=(torch.ones(30),))))), b"\x00" * 64],
    ids=["another protocol", "a message before the handshake", "zeros"],
)
def test_an_unauthenticated_peer_that_sends_something_else_is_counted_and_dropped(started: Start, data: bytes) -> None:
    (one,) = started(["worker/0"])
    address = one.peers.address
    with socket.create_connection((address.ip, address.port)) as link:
        link.sendall(data)
        link.settimeout(60)
        received = bytearray()
        with suppress(ConnectionResetError):  # it did not read to the end
            while come := link.recv(4096):
                received += come
    assert len(received) <= PREFIX.size + NONCE.size  # drawn by lot, for everybody
    assert within_loop(one, lambda: one.peers.tally.rejected) == 1


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EHOSTUNREACH], ids=errno.errorcode.get)
def test_a_listener_that_cannot_take_a_caller_in_goes_on_later(started: Start, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    accept, accepted = socket.socket.accept, 0

    def fails_at_first(listener: socket.socket) -> Any:
        nonlocal accepted
        accepted += 1
        if accepted < 3:
            raise OSError(code, os.strerror(code))
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fails_at_first)
    one, other = started(["worker/0", "worker/1"])
    one.complete(send(one.port, "worker/1", Message("t")))
    assert len(other.complete(take(other.port, "t", 1))) == 1
    assert accepted == 3


def test_a_listener_that_rests_can_be_closed(started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = threading.Event()

    def fails(listener: socket.socket) -> Any:
        accepted.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket.socket, "accept", fails)
    one, other = started(["worker/0", "worker/1"])
    within_loop(one, lambda: one.peers.connect(["worker/1"]))
    assert accepted.wait(60)
    assert other.failure is None


def test_an_authenticated_peer_that_then_sends_too_much_is_reported_by_name(started: Start) -> None:
    one, other = started(["worker/0", "worker/1"])
    lost: list[tuple[str, Exception | None]] = []
    done = threading.Event()

    def note(name: str, why: Exception | None) -> None:
        lost.append((name, why))
        done.set()

    other.on_connection_lost = note
    one.complete(send(one.port, "worker/1", Message("t")))
    other.complete(take(other.port, "t", 1))
    within_loop(other, lambda: other.peers.restrict("worker/0", Limits(payload=100)))
    one.complete(send(one.port, "worker/1", Message("t", tensors=(torch.ones(26),))))
    assert done.wait(60)
    assert lost[0][0] == "worker/0"
    assert isinstance(lost[0][1], WireError)


def test_the_end_message_comes_after_all_that_was_sent(started: Start) -> None:
    one, other = started(["worker/0", "worker/1"])
    messages = [Message("t", (float(place),), tensors=(torch.ones(50_000),)) for place in range(10)]
    one.complete(send(one.port, "worker/1", *messages))
    gone = threading.Event()
    one.loop.call(lambda: one.finish(gone.set))
    assert gone.wait(60)
    assert len(other.complete(take(other.port, "t", 10, "worker/0"))) == 10
    with pytest.raises(DeadlockError, match="worker/1 waits for 't' from worker/0, which has ended"):
        other.complete(take(other.port, "t", 1, "worker/0"))


def test_a_lost_actor_is_announced_and_messages_to_it_are_dropped(started: Start) -> None:
    one, _ = started(["worker/0", "worker/1"])
    within_loop(one, lambda: one.lose("worker/1"))
    (notice,) = one.complete(take(one.port, "lost", 1))
    assert notice.text == "worker/1"
    one.complete(send(one.port, "worker/1", Message("t")))
    assert one.peers.bytes_sent == 0


def test_a_message_to_an_unknown_actor_is_an_error_that_lists_who_there_is(started: Start) -> None:
    (one,) = started(["worker/0"])
    with pytest.raises(RunError, match="worker/0 sends to 'worker/7'; in this run there are worker/0"):
        one.complete(send(one.port, "worker/7", Message("t")))


def test_a_failure_ends_what_is_performed_and_all_that_will_be(started: Start) -> None:
    (one,) = started(["worker/0"])
    one.loop.call(lambda: one.loop.after(0.01, lambda: one.fail(RunError("over"))) and None)
    for _ in range(2):
        with pytest.raises(RunError, match="over"):
            one.complete(take(one.port, "t", 1))


def test_who_has_stopped_raises_in_place_of_waiting_for_ever(started: Start) -> None:
    one = started(["worker/0"]).pop()  # not the fixture's to stop
    one.stop()
    with pytest.raises(RunError, match="worker/0 has left its run"):
        one.complete(take(one.port, "t", 1))


def test_a_loop_whose_callback_failed_still_responds_and_closes(started: Start) -> None:
    one = started(["worker/0"]).pop()  # not the fixture's to stop

    def fail() -> None:
        raise ArithmeticError("in the loop")

    one.loop.call(fail)
    assert within_loop(one, lambda: str(one.failure)) == "in the loop"
    one.stop()
    with pytest.raises(ArithmeticError, match="in the loop"):
        one.complete(take(one.port, "t", 1))
