"""Whole runs on real processes."""

import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.events import AnyEvent, Ended, Faulted, Recorder, Reported, Started
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import CompositionError, DeadlockError, DivergedError, WorkerFailed


async def no_service(port: Port, record: Recorder) -> None:
    return None


def run(
    program: Callable[[WorkerContext], Message | None],
    workers: int = 2,
    servers: int = 0,
    service: Callable[[Port, Recorder], Coroutine[Any, Any, None]] = no_service,
    essential: Callable[[str], bool] = lambda name: True,
    on: Processes | None = None,
) -> tuple[Ending, list[AnyEvent]]:
    events: list[AnyEvent] = []
    ending = (on or Processes()).execute(Job(workers, servers, program, service, essential, seed=3), events.append)
    return ending, events


async def ring_sum(port: Port, rank: int, workers: int, value: torch.Tensor) -> torch.Tensor:
    total = value.clone()
    for step in range(workers - 1):
        await port.send(f"worker/{(rank + 1) % workers}", Message(f"ring/{step}", tensors=(value,)))
        delivery = await port.receive(f"ring/{step}", f"worker/{(rank - 1) % workers}")
        assert delivery is not None
        value = delivery.message.tensors[0]
        total += value
    return total


def rank_of(context: WorkerContext) -> int:
    return int(context.port.name.partition("/")[2])


def test_processes_are_called_what_messages_call_them() -> None:
    ending, _ = run(lambda context: Message("comm", text=Path("/proc/self/comm").read_text()))
    assert [message and message.text for message in ending.results.values()] == ["worker/0\n", "worker/1\n"]


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_ring_of_processes_gives_everyone_the_sum_and_counts_each_byte(size: int) -> None:
    def program(context: WorkerContext) -> Message:
        value = torch.full((size,), float(rank_of(context) + 1))
        return Message("sum", tensors=(context.perform(ring_sum(context.port, rank_of(context), 3, value)),))

    ending, events = run(program, workers=3)
    for rank in range(3):
        message = ending.results[f"worker/{rank}"]
        assert message is not None
        assert torch.equal(message.tensors[0], torch.full((size,), 6.0))
    each = wire_bytes(Message("ring/0", tensors=(torch.zeros(size),)))
    assert (ending.bytes_sent, ending.messages_sent, ending.lost) == (6 * each, 6, [])
    assert ending.seconds > 0
    assert sorted(event.actor for event in events if isinstance(event, Started)) == ["worker/0", "worker/1", "worker/2"]
    assert sum(event.bytes_sent for event in events if isinstance(event, Ended)) == ending.bytes_sent


def test_servers_respond_while_programs_compute_and_end_by_themselves() -> None:
    async def service(port: Port, record: Recorder) -> None:
        for _ in range(2):
            delivery = await port.receive("pull")
            assert delivery is not None
            await port.send(delivery.sender, Message("weights", tensors=(torch.ones(3),)))

    async def pull(port: Port) -> float:
        await port.send("server/0", Message("pull"))
        delivery = await port.receive("weights", "server/0")
        assert delivery is not None
        return float(delivery.message.tensors[0].sum())

    ending, _ = run(lambda context: Message("got", (context.perform(pull(context.port)),)), servers=1, service=service)
    assert [message and message.numbers for message in ending.results.values()] == [(3.0,), (3.0,)]


def test_a_spawned_coroutine_works_while_the_program_computes() -> None:
    async def respond(port: Port) -> None:
        while True:
            delivery = await port.receive("question")
            assert delivery is not None
            await port.send(delivery.sender, Message("response"))

    async def open_up(port: Port) -> None:
        await port.spawn("respond", respond(port))

    async def request(port: Port) -> None:
        await port.send("worker/0", Message("question"))
        await port.receive("response", "worker/0")
        await port.send("worker/0", Message("requested"))

    async def look(port: Port) -> bool:
        return await port.receive("requested", timeout=0) is not None

    def program(context: WorkerContext) -> Message | None:
        if rank_of(context) == 1:
            context.perform(request(context.port))
            return None
        context.perform(open_up(context.port))
        turns = 0
        while not context.perform(look(context.port)):
            turns += sum(range(1000)) > 0
        return Message("turns", (turns,))

    assert run(program)[0].results["worker/1"] is None


def test_reported_bytes_are_those_of_all_actors() -> None:
    async def push(port: Port) -> None:
        await port.send("worker/0", Message("t", tensors=(torch.ones(1000),)))

    async def wait(port: Port) -> None:
        await port.receive("t", "worker/1")

    def program(context: WorkerContext) -> None:
        if rank_of(context) == 1:
            context.perform(push(context.port))
            context.record(Reported(context.port.now(), context.port.name, 1, {"loss": float("nan")}, 0))
        else:
            context.perform(wait(context.port))

    _, events = run(program)
    (reported,) = [event for event in events if isinstance(event, Reported)]
    assert reported.bytes_sent == wire_bytes(Message("t", tensors=(torch.ones(1000),)))
    assert reported.metrics["loss"] != reported.metrics["loss"]


def test_programs_of_different_length_still_deliver_everything() -> None:
    async def flood(port: Port) -> None:
        for place in range(50):
            await port.send("worker/1", Message("t", (place,), tensors=(torch.ones(40_000),)))

    async def drink(port: Port) -> float:
        await port.sleep(0.1)
        total = 0.0
        for _ in range(50):
            delivery = await port.receive("t", "worker/0")
            assert delivery is not None
            total += delivery.message.numbers[0]
        return total

    def program(context: WorkerContext) -> Message | None:
        if rank_of(context) == 0:
            context.perform(flood(context.port))
            return None
        return Message("total", (context.perform(drink(context.port)),))

    result = run(program)[0].results["worker/1"]
    assert result is not None
    assert result.numbers == (1225.0,)


def test_the_error_of_a_program_ends_the_run_at_once_with_its_own_traceback() -> None:
    async def wait(port: Port) -> None:
        await port.receive("never")

    def train_badly(context: WorkerContext) -> None:
        if rank_of(context) == 1:
            raise KeyError("no such layer")
        context.perform(wait(context.port))

    run(lambda context: None)
    start = time.monotonic()
    with pytest.raises(WorkerFailed, match="worker/1 failed: KeyError: 'no such layer'") as caught:
        run(train_badly)
    assert time.monotonic() - start < 8  # a process that nobody ends waits 10 seconds by itself
    assert caught.value.actor == "worker/1"
    assert "in train_badly" in caught.value.trace
    assert 'raise KeyError("no such layer")' in caught.value.trace
    assert "processes/child.py" not in caught.value.trace


def test_the_error_of_a_spawned_coroutine_ends_the_run_while_the_program_computes() -> None:
    async def wrong() -> None:
        raise ArithmeticError("spawned")

    async def begin(port: Port) -> None:
        await port.spawn("wrong", wrong())

    def program(context: WorkerContext) -> None:
        context.perform(begin(context.port))
        time.sleep(30)

    with pytest.raises(WorkerFailed, match="ArithmeticError: spawned"):
        run(program, workers=1)


def test_an_error_of_ours_keeps_its_class_and_text() -> None:
    def program(context: WorkerContext) -> None:
        raise DivergedError("The loss of worker/0 is nan at step 3.")

    with pytest.raises(DivergedError, match=r"^The loss of worker/0 is nan at step 3\.$"):
        run(program, workers=1)


@pytest.mark.parametrize(
    ("leave", "reason"),
    [(lambda: os._exit(3), "its process ended early with exit code 3"), (lambda: sys.exit(3), r"it called sys.exit\(3\)")],
)
def test_a_process_that_just_leaves_is_named(leave: Callable[[], None], reason: str) -> None:
    def program(context: WorkerContext) -> None:
        if rank_of(context) == 1:
            leave()
        time.sleep(30)

    with pytest.raises(WorkerFailed, match=f"worker/1 failed: {reason}"):
        run(program)


def test_waiting_for_one_who_has_ended_is_a_deadlock_that_names_both() -> None:
    async def wait(port: Port) -> None:
        await port.receive("gradient", "worker/1")

    def program(context: WorkerContext) -> None:
        if rank_of(context) == 0:
            context.perform(wait(context.port))

    with pytest.raises(DeadlockError, match=r"worker/0 waits for 'gradient' from worker/1, which has ended\."):
        run(program)


def test_a_circle_of_waiting_is_a_deadlock_that_names_all() -> None:
    async def wait(port: Port, sender: str) -> None:
        await port.receive("turn", sender)

    async def service(port: Port, record: Recorder) -> None:
        await port.receive("anything")

    def program(context: WorkerContext) -> None:
        context.perform(wait(context.port, f"worker/{1 - rank_of(context)}"))

    with pytest.raises(DeadlockError) as caught:
        run(program, servers=1, service=service, on=Processes(patience=0.2))
    assert str(caught.value) == (
        "Deadlock: worker/0 waits for 'turn' from worker/1; worker/1 waits for 'turn' from worker/0; "
        "server/0 waits for 'anything' from anyone."
    )


def test_the_run_goes_on_without_an_actor_that_is_not_essential() -> None:
    async def mourn(port: Port) -> str:
        delivery = await port.receive("lost")
        assert delivery is not None
        await port.send("worker/1", Message("too late"))
        return delivery.message.text

    def program(context: WorkerContext) -> Message:
        if rank_of(context) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return Message("lost", text=context.perform(mourn(context.port)))

    ending, events = run(program, workers=3, essential=lambda name: name != "worker/1")
    assert ending.lost == ["worker/1"]
    assert {name: message and message.text for name, message in ending.results.items()} == {"worker/0": "worker/1", "worker/2": "worker/1"}
    (fault,) = [event for event in events if isinstance(event, Faulted)]
    assert (fault.actor, fault.what) == ("worker/1", "killed by signal 9 (SIGKILL)")
    assert ending.messages_sent == 0


def test_gpus_that_were_required_must_be_there_one_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CompositionError, match="finds none here"):
        Processes(cuda=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(CompositionError, match="finds 1 here: start no more workers than that"):
        run(lambda context: None, workers=2, on=Processes(cuda=True))
    for allowed in (None, False):  # too few for all: nobody gets one
        run(lambda context: None, workers=2, on=Processes(cuda=allowed))


async def nothing_comes(port: Port) -> None:
    await port.receive("never", "worker/1")


def stands_still(context: WorkerContext) -> None:
    if rank_of(context) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    context.perform(nothing_comes(context.port))


def test_a_process_that_is_stopped_is_reported_and_ends_the_run_after_the_timeout(capfd: pytest.CaptureFixture[str]) -> None:
    events: list[AnyEvent] = []
    on = Processes(notice=0.4, timeout=1.0)
    with pytest.raises(WorkerFailed, match=r"worker/1 failed: it made no progress within timeout=1 seconds") as caught:
        on.execute(Job(2, 0, stands_still, no_service, lambda name: True), events.append)
    assert caught.value.actor == "worker/1"
    lines = capfd.readouterr().err.splitlines()
    assert "worker/1 has made no progress for" in lines[0] or "for worker/1, which has not taken a step yet; its process" in lines[0]
    assert "is stopped by a signal (kill -CONT" in lines[0]
    assert {event.actor for event in events if isinstance(event, Faulted)} == {"worker/1"}


def test_a_worker_that_computes_for_long_is_reported_and_not_ended(capfd: pytest.CaptureFixture[str]) -> None:
    async def greet(port: Port) -> None:
        await port.send("worker/0", Message("hello"))

    async def wait(port: Port) -> None:
        await port.receive("hello", "worker/1")

    def program(context: WorkerContext) -> None:
        if rank_of(context) == 1:
            time.sleep(2.0)
        context.perform(greet(context.port) if rank_of(context) else wait(context.port))

    assert run(program, on=Processes(patience=0.4, notice=0.5))[0].lost == []
    assert "polyrhythm: worker/0 has waited" in capfd.readouterr().err
