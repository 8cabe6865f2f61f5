"""The faults of `hardware` in real processes: as in virtual time, by time and by step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, Faulted, Stepped
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, DeadlockError, WorkerFailed
from polyrhythm.hardware.faults import (
    Crash,
    DatagramFaults,
    Disconnect,
    Drop,
    Exit,
    Fault,
    FaultSource,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Partition,
    RandomCrashes,
    Segfault,
    SlowDisk,
    Stall,
    schedule,
)
from polyrhythm.hardware.faults.fault import moment, places

Program = Callable[[WorkerContext], Message | None]
STEPS = 4


def step(context: WorkerContext, clock: int) -> None:
    context.record(Stepped(context.port.now(), context.port.name, clock, clock, 0))


def steps(context: WorkerContext) -> None:
    """Takes a twentieth of a second for each step."""

    async def wait() -> None:
        await context.port.sleep(0.05)

    for clock in range(1, STEPS + 1):
        context.perform(wait())
        step(context, clock)


def sends(patience: float) -> Program:
    """Worker 0 sends a note at each of 20 steps; worker 1 returns their numbers and times, until none has come for `patience` seconds."""

    def program(context: WorkerContext) -> Message | None:
        port = context.port

        async def send(clock: int) -> None:
            await port.send(worker(1), Message("x", (clock,)))
            await port.sleep(0.01)

        async def receive() -> Message:
            numbers: list[float] = []
            while numbers[-2:-1] != [20.0] and (delivery := await port.receive("x", timeout=patience)) is not None:
                numbers += [delivery.message.numbers[0], port.now()]
            return Message("result", tuple(numbers))

        if port.name == worker(1):
            return context.perform(receive())
        for clock in range(1, 21):
            context.perform(send(clock))
            step(context, clock)
        return None

    return program


async def no_service(*_: object) -> None: ...


def play(program: Any, *faults: FaultSource, workers: int = 3, survives: bool = True, on: Any = None) -> tuple[Ending, list[AnyEvent]]:
    events: list[AnyEvent] = []
    job = Job(workers, 0, program, no_service, lambda name: not survives or name == "worker/0")
    return (on or Processes(faults=faults, patience=1.0)).execute(job, events.append), events


def faulted(events: list[AnyEvent]) -> list[tuple[str, str]]:
    return [(event.actor, event.what) for event in events if isinstance(event, Faulted)]


def taken(events: list[AnyEvent], actor: str) -> int:
    return sum(isinstance(event, Stepped) and event.actor == actor for event in events)


DEADLY: list[tuple[Any, str, str]] = [
    (Crash, "crashed", r"killed by signal 9 \(SIGKILL\)"),
    (Segfault, "died of a segmentation fault", r"killed by signal 11 \(SIGSEGV\)"),
    (lambda actor, **when: Exit(actor, 7, **when), "exited with status 7", "its process ended early with exit code 7"),
]


@pytest.mark.parametrize(("kind", "what", "how"), DEADLY)
def test_a_process_dies_after_its_step_or_at_its_time_and_the_record_is_that_of_virtual_time(kind: Any, what: str, how: str) -> None:
    faults: tuple[Fault, ...] = (kind("worker/1", step=2), kind("worker/2", at=0.12))
    ending, events = play(steps, *faults)
    virtual, those = play(steps, on=Simulator(faults=faults))
    assert sorted(ending.lost) == sorted(virtual.lost) == ["worker/1", "worker/2"]
    assert sorted(faulted(events)) == sorted(faulted(those)) == [("worker/1", what), ("worker/2", what)]
    assert taken(events, "worker/1") == 2
    assert taken(events, "worker/0") == STEPS
    with pytest.raises(WorkerFailed, match=rf"worker/0 failed: it {what}, as scheduled: {how}"):
        play(steps, kind("first", step=1))


def test_a_stalled_process_and_one_that_holds_its_gil_stand_still_for_that_time() -> None:
    faults = (
        Stall("worker/1", duration=0.4, step=2),
        HoldGIL("worker/2", duration=0.4, step=1),
        HoldGIL("worker/1", duration=0.3, step=3),
    )
    _, events = play(steps, *faults)
    assert sorted(faulted(events)) == sorted((fault.actor, fault.what) for fault in faults)
    for name, gaps in (("worker/0", []), ("worker/1", [0.4, 0.3]), ("worker/2", [0.4])):
        times = [event.time for event in events if isinstance(event, Stepped) and event.actor == name]
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert [wait for wait in waits if wait > 0.2] == pytest.approx(gaps, abs=0.15)


@pytest.mark.parametrize("fault", [Drop(0.4), Drop(0.5, between=("worker/0", "worker/1"), step=3)])
def test_the_same_messages_are_lost_as_in_virtual_time(fault: Drop) -> None:
    real = play(sends(0.2), fault, workers=2)
    virtual = play(sends(0.2), workers=2, on=Simulator(network="lan", faults=(fault,)))
    results = [ending.results["worker/1"] for ending, _ in (real, virtual)]
    assert results[0] is not None
    assert results[1] is not None
    assert results[0].numbers[::2] == results[1].numbers[::2]
    assert faulted(real[1]) == faulted(virtual[1]) != []
    assert real[0].messages_sent == virtual[0].messages_sent


@pytest.mark.parametrize(
    "fault", [Disconnect("worker/0", "worker/1", step=5, duration=0.5), Partition((("worker/1",), ("worker/0",)), 0.05, 0.5)]
)
def test_a_cut_holds_messages_and_loses_none(fault: Any) -> None:
    result = play(sends(2.0), fault, workers=2)[0].results["worker/1"]
    assert result is not None
    numbers, times = result.numbers[::2], result.numbers[1::2]
    assert numbers == tuple(range(1, 21))
    assert max(later - earlier for earlier, later in pairwise(times)) >= 0.4


def test_what_waits_for_a_connection_that_stays_cut_is_deadlocked() -> None:
    def waits(context: WorkerContext) -> None:
        async def exchange() -> None:
            other = worker(1 - rank_of(context.port.name))
            await context.port.sleep(0.1)
            await context.port.send(other, Message("x"))
            await context.port.receive("x", other)

        context.perform(exchange())

    with pytest.raises(DeadlockError, match="waits for 'x' from worker/"):
        play(waits, Disconnect("worker/0", "worker/1", at=0.0), workers=2, survives=False)


def train(worker: pr.Worker) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    for (inputs,) in worker.batches((torch.ones(16, 3),), 2):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()


def test_a_worker_is_killed_between_the_beginning_and_the_commit_of_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="worker/1 failed: it crashed while it wrote a checkpoint, as scheduled"):
        pr.run(train, on=Processes(faults=(KillWhileWriting("worker/1", 2),)), checkpoints=pr.Checkpoints(tmp_path, every=1))
    assert sorted(path.name for path in tmp_path.glob("*step-*")) == [".step-00000002.partial", "step-00000001"]


def test_a_slow_disk_takes_longer_for_each_checkpoint(tmp_path: Path) -> None:
    began = time.monotonic()
    done = pr.run(
        train,
        on=Processes(faults=(SlowDisk("worker/1", 0.2, step=1),)),
        checkpoints=pr.Checkpoints(tmp_path, every=2),
        directory=tmp_path / "r",
    )
    assert time.monotonic() - began >= 0.4
    assert [event.what for event in done.outcome.events if isinstance(event, Faulted)] == ["writes 0.2 s longer for inf s"]


def test_random_faults_come_at_the_steps_that_the_same_seed_gives_in_virtual_time() -> None:
    rule = RandomCrashes(rate_per_step=0.3, horizon=STEPS)
    actors = ["worker/0", "worker/1", "worker/2"]
    due = {seed: {places(fault)[0]: moment(fault)[1] for fault in schedule((rule,), seed, actors)} for seed in range(40)}
    seed = next(seed for seed, steps_of in due.items() if steps_of.keys() == {"worker/1", "worker/2"} and len(set(steps_of.values())) == 2)
    for runtime in (Processes(faults=(rule,), seed=seed), Simulator(faults=(rule,), seed=seed)):
        ending, events = play(steps, on=runtime)
        assert {name: f"step {taken(events, name)}" for name in ending.lost} == due[seed]


def test_who_has_notice_gets_sigterm_and_is_killed_at_its_end() -> None:
    def stays(context: WorkerContext) -> None:
        if context.port.name == "worker/1":
            import signal

            signal.signal(signal.SIGTERM, lambda *_: os.write(1, b""))
        for _ in range(3):
            steps(context)

    job = Job(3, 0, stays, no_service, lambda name: name == "worker/0", crew=Crew(1, 3))
    events: list[AnyEvent] = []
    ending = Processes(faults=(Leave("worker/1", step=1, notice=0.2),)).execute(job, events.append)
    assert ending.lost == ["worker/1"]
    assert faulted(events) == [("worker/1", "has notice to leave within 0.2 s"), ("worker/1", "crashed at the end of its notice")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Join(1.0), r"faults has a Join, and this run's crew is fixed: give workers=\(2, 8\)"),
        (
            Disconnect("host/0", "worker/1", 1.0),
            "is about host/0, and real processes are all on this host: name actors, or give pr.Simulator",
        ),
        (DatagramFaults(0.5, between=("site/Rome", "worker/0")), "is about site/Rome"),
    ],
)
def test_what_real_processes_cannot_have_is_refused(fault: Any, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        play(steps, fault)


def test_a_server_takes_no_steps() -> None:
    job = Job(1, 1, steps, no_service, lambda name: True)
    for runtime in (Processes(faults=(Crash("server/0", step=1),)), Simulator(faults=(Crash("server/0", step=1),))):
        with pytest.raises(CompositionError, match=r"server/0 takes none: give at=SECONDS"):
            runtime.execute(job, lambda event: None)
