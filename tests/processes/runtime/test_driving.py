"""A program that waits serves the loop of its process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport.addresses import listen_locally
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.errors import RunError


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(Role("worker/0", bytes(32)), Wiring(), listen_locally(), lambda _: None)
    node.start()
    yield node
    node.stop()


async def look(node: Node) -> tuple[int, bool]:
    """Which thread serves after a wait, and whether it records gradients."""
    await node.port.sleep(0.001)
    return threading.get_ident(), torch.is_grad_enabled()


def test_coroutines_run_in_the_thread_that_waits_for_them_but_not_in_its_modes(node: Node) -> None:
    with torch.no_grad():
        assert node.complete(look(node)) == (threading.get_ident(), True)
        assert not torch.is_grad_enabled()


def test_under_autocast_or_a_default_device_they_run_in_the_loops_own_thread(node: Node) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert node.complete(look(node))[0] != threading.get_ident()
    with torch.device("meta"):
        assert node.complete(look(node))[0] != threading.get_ident()


def test_an_interrupt_ends_the_wait_and_breaks_nothing(node: Node) -> None:
    started = threading.Event()

    async def wait_for_ever() -> None:
        node.loop.after(0.0, started.set)
        await node.port.receive("never")

    def interrupt() -> None:
        started.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        node.complete(wait_for_ever())
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    called = threading.Event()
    node.loop.call(called.set)
    assert called.wait(10), "the loop's own thread serves again"


def test_a_program_that_drives_looks_up_though_nothing_happens(node: Node) -> None:
    """A signal that comes between Python's last look and the system's wait does not end that wait."""
    calls: list[float] = []

    def enough() -> bool:
        calls.append(time.monotonic())
        return len(calls) > 1

    waker = threading.Timer(20, node.loop.wake)
    waker.start()
    assert node.loop.drive((), enough)
    waker.cancel()
    assert calls[-1] - calls[0] < 10


def test_a_handler_that_raises_nothing_runs_and_the_wait_goes_on(node: Node) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()

        async def wait() -> bool:
            for _ in range(500):
                await node.port.sleep(0.01)
                if seen:
                    return True
            return False

        assert node.complete(wait())
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_failure_of_the_node_ends_the_wait_with_its_error(node: Node) -> None:
    node.loop.after(0.01, lambda: node.fail(ArithmeticError("elsewhere")))

    async def wait() -> None:
        await node.port.receive("never")

    with pytest.raises(ArithmeticError, match="elsewhere"):
        node.complete(wait())


def test_what_a_callback_raises_fails_the_node_and_the_loop_serves_on(node: Node) -> None:
    def fail() -> None:
        raise ArithmeticError("in a callback")

    async def wait() -> None:
        await node.port.receive("never")

    threading.Timer(0.02, lambda: node.loop.call(fail)).start()
    with pytest.raises(ArithmeticError, match="in a callback"):
        node.complete(wait())


def test_two_threads_of_a_program_may_wait_for_each_other(node: Node) -> None:
    async def receive() -> str:
        delivery = await node.port.receive("greeting")
        assert delivery is not None
        return delivery.message.text

    async def send() -> None:
        await node.port.sleep(0.05)

    got: list[str] = []
    thread = threading.Thread(target=lambda: node.complete(send()))
    thread.start()
    threading.Timer(0.1, lambda: node.loop.call(lambda: node.peers.send("worker/0", Message("greeting", text="hello")))).start()
    got.append(node.complete(receive()))
    thread.join(10)
    assert got == ["hello"]


def test_what_fails_as_the_wait_ends_is_not_lost(node: Node) -> None:
    failed = threading.Event()
    node.on_failure = lambda error: failed.set()

    def fail() -> None:
        raise ArithmeticError("just after")

    async def wait() -> None:
        node.loop.after(0.015, fail)
        await node.port.sleep(0.01)
        time.sleep(0.02)  # so that both are due in one round

    node.complete(wait())
    assert failed.wait(10)
    with pytest.raises(ArithmeticError, match="just after"):
        node.complete(wait())


def test_who_serves_when_the_node_is_stopped_is_notified() -> None:
    node = Node(Role("worker/0", bytes(32)), Wiring(), listen_locally(), lambda _: None)
    node.start()
    started, errors = threading.Event(), list[BaseException]()

    async def wait_for_ever() -> None:
        node.loop.after(0.0, started.set)
        await node.port.receive("never")

    def wait() -> None:
        try:
            node.complete(wait_for_ever())
        except RunError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(10)
    node.stop()
    thread.join(10)
    assert [str(error) for error in errors] == ["worker/0 has left its run, so it cannot send to the others any more."]
