"""A deadlock is an error that names who waits for whom."""

from __future__ import annotations

import pytest

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import DeadlockError

from .scenes import INSTANT, PLAIN, Program, job, note, play, silent


def waits(topic: str, sender: str = "", after: float = 0.0) -> Program:
    def program(context: WorkerContext) -> None:
        async def wait() -> None:
            await context.port.sleep(after)
            await context.port.receive(topic, sender)

        context.perform(wait())

    return program


def test_it_names_every_waiting_actor_the_topic_the_sender_and_the_time() -> None:
    async def serve(port: Port) -> None:
        await port.receive("push")

    with pytest.raises(DeadlockError) as caught:
        play(job(waits("a", "worker/1", after=2.5), waits("b", "worker/2"), silent, servers=(serve,)), Simulator(network=PLAIN))
    assert str(caught.value) == (
        "Deadlock at 2.5 s of virtual time: worker/0 waits for 'a' from worker/1; "
        "worker/1 waits for 'b' from worker/2, which has ended; server/0 waits for 'push' from anyone."
    )


def test_it_is_found_at_the_last_thing_that_happened_and_not_at_an_old_timer() -> None:
    def program(context: WorkerContext) -> None:
        async def wait() -> None:
            await context.port.send("worker/0", note())
            await context.port.receive("x", timeout=1e9)
            await context.port.receive("y", "worker/0")

        context.perform(wait())

    with pytest.raises(DeadlockError, match=r"at 0 s .*worker/0 waits for 'y' from worker/0\."):
        play(job(program), Simulator(network=INSTANT))


def test_a_long_list_is_cut_short() -> None:
    with pytest.raises(DeadlockError, match=r"worker/15 waits for 'a' from nobody, which does not exist; and 24 more wait\."):
        play(job(*[waits("a", "nobody")] * 40), Simulator(network=INSTANT))


def test_background_work_and_servers_that_wait_are_no_deadlock() -> None:
    async def serve(port: Port) -> None:
        await port.receive("never")

    ending, _ = play(job(silent, servers=(serve, serve)), Simulator(network=INSTANT))
    assert ending.seconds == 0.0


def test_background_work_that_waits_next_to_a_program_is_named() -> None:
    def program(context: WorkerContext) -> None:
        async def listen() -> None:
            await context.port.receive("news")

        async def wait() -> None:
            await context.port.spawn("listener", listen())
            await context.port.receive("answer")

        context.perform(wait())

    with pytest.raises(DeadlockError, match=r"worker/0 waits for 'answer' from anyone; worker/0 \(listener\) waits for 'news' from anyone"):
        play(job(program), Simulator(network=INSTANT))


def test_waiting_for_a_time_that_never_comes_is_a_deadlock() -> None:
    def program(context: WorkerContext) -> None:
        async def sleep() -> None:
            await context.port.sleep(float("inf"))

        context.perform(sleep())

    with pytest.raises(DeadlockError, match="worker/0 waits for a time that is never reached"):
        play(job(program), Simulator(network=INSTANT))
