"""Faults after steps, at checkpoints and of the crew, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Faulted, Stepped
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.simulator.fault_injection import FaultInjection
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    Drop,
    Exit,
    Fault,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Segfault,
    SlowDisk,
    Stall,
)

from .scenes import PLAIN, Program, job, note, play

STEPS = 6


def steps(context: WorkerContext) -> None:
    """Takes a second for each step, of which it sends a note to the next worker."""
    port = context.port
    for clock in range(1, STEPS + 1):
        context.perform(_second(context))
        context.record(Stepped(port.now(), port.name, clock, clock, 0))


async def _second(context: WorkerContext) -> None:
    await context.port.sleep(1.0)


def taken(events: list[Any], actor: str) -> int:
    return sum(isinstance(event, Stepped) and event.actor == actor for event in events)


def faulted(events: list[Any]) -> list[tuple[float, str, str]]:
    return [(event.time, event.actor, event.what) for event in events if isinstance(event, Faulted)]


@pytest.mark.parametrize("step", [1, 3, STEPS - 1])
@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (Crash("worker/1", step=1), "crashed"),
        (Segfault("worker/1", step=1), "died of a segmentation fault"),
        (Exit("worker/1", 3, step=1), "exited with status 3"),
    ],
)
def test_an_actor_is_lost_after_its_step(fault: Crash, what: str, step: int) -> None:
    runtime = Simulator(network=PLAIN, faults=(replace(fault, step=step),))
    ending, events = play(job(steps, steps, steps, survives=True), runtime)
    assert ending.lost == ["worker/1"]
    assert taken(events, "worker/1") == step
    assert faulted(events) == [(float(step), "worker/1", what)]
    with pytest.raises(WorkerFailed, match=rf"it {what} at {step} s of virtual time, as scheduled"):
        play(job(steps, steps, steps), runtime)


def test_first_is_whoever_is_the_first_worker_at_that_moment() -> None:
    faults = (Crash("first", 1.5), Crash("first", step=3), Stall("first", 4.5, 1.0))
    ending, events = play(job(steps, steps, steps, survives=True), Simulator(network=PLAIN, faults=faults))
    assert ending.lost == ["worker/0", "worker/1"]
    assert faulted(events)[2] == (4.5, "worker/2", "stalls for 1 s")
    assert ending.seconds == STEPS + 0.5


def test_a_worker_that_holds_the_gil_receives_nothing_and_sends_nothing_of_what_it_had_begun_to_send() -> None:
    def speaks(to: str) -> Program:
        def program(context: WorkerContext) -> None:
            async def speak() -> None:
                await context.port.send(to, note(text="-" * 1000))
                delivery = await context.port.receive("x")
                assert delivery is not None
                heard.append((context.port.name, context.port.now()))

            context.perform(speak())

        return program

    def when(fault: Fault) -> dict[str, float]:
        heard.clear()
        play(job(speaks("worker/1"), speaks("worker/0")), Simulator(network=PLAIN, faults=(fault,)))
        return dict(heard)

    heard: list[tuple[str, float]] = []
    usual = when(Stall("worker/0", 100.0, 1.0))["worker/1"]
    stalled, held = when(Stall("worker/0", 0.25, 10.0)), when(HoldGIL("worker/0", 0.25, 10.0))
    assert stalled == {"worker/1": usual, "worker/0": 10.25}
    assert held == {"worker/1": pytest.approx(usual + 10.0), "worker/0": pytest.approx(usual + 10.0)}


def test_cuts_and_losses_begin_after_a_step_of_the_first_worker() -> None:
    def speaks(context: WorkerContext) -> None:
        async def send(clock: int) -> None:
            await context.port.send("worker/1", note(clock))
            await context.port.sleep(1.0)

        for clock in range(1, STEPS + 1):
            context.perform(send(clock))
            context.record(Stepped(context.port.now(), "worker/0", clock, clock, 0))

    def heard(fault: Fault) -> list[tuple[float, float]]:
        seen: list[tuple[float, float]] = []

        def hears(context: WorkerContext) -> None:
            async def hear() -> None:
                while (delivery := await context.port.receive("x", timeout=9.0)) is not None:
                    seen.append((round(context.port.now(), 1), delivery.message.numbers[0]))

            context.perform(hear())

        play(job(speaks, hears), Simulator(network=PLAIN, faults=(fault,)))
        return seen

    assert [number for _, number in heard(Drop(1.0, step=2, duration=2.5))] == [1, 2, 6]
    times = {number: time for time, number in heard(Disconnect("first", "worker/1", step=2, duration=2.5))}
    assert [times[1], times[2], times[6]] == [0.5, 1.5, 5.5]
    assert all(5.0 <= times[number] <= 5.1 for number in (3, 4, 5))


def train(worker: pr.Worker) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    for (inputs,) in worker.batches((torch.ones(32, 3),), 2):
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()


def attempt(directory: Path, *faults: Fault, system: str = "allreduce") -> pr.Run:
    return pr.run(
        train,
        workers=2,
        strategy=system,
        on=Simulator(faults=faults),
        checkpoints=pr.Checkpoints(directory, every=2),
        directory=directory / "r",
    )


@pytest.mark.parametrize("actor", ["first", "worker/1"])
def test_a_worker_is_killed_between_the_beginning_and_the_commit_of_a_checkpoint(actor: str, tmp_path: Path) -> None:
    name = "worker/0" if actor == "first" else actor
    with pytest.raises(WorkerFailed, match=f"{name} failed: it crashed while it wrote a checkpoint at"):
        attempt(tmp_path, KillWhileWriting(actor, checkpoint=2))
    assert sorted(path.name for path in tmp_path.glob("*step-*")) == [".step-00000004.partial", "step-00000002"]
    assert list((tmp_path / ".step-00000004.partial").glob(f"{name.replace('/', '-')}*"))


def test_a_slow_disk_takes_its_seconds_for_each_checkpoint_while_it_lasts(tmp_path: Path) -> None:
    usual = attempt(tmp_path / "a").outcome.time
    slow = SlowDisk("worker/1", 7.0, step=1, duration=10.0)
    assert attempt(tmp_path / "b", slow).outcome.time == pytest.approx(usual + 14.0)
    assert attempt(tmp_path / "c", replace(slow, step=None, at=1e6)).outcome.time == usual


@pytest.mark.parametrize("fault", [Join(1.0), Leave("worker/0", 1.0), pr.hardware.Trace("spot-calm")])
def test_a_fixed_crew_is_a_reason_to_refuse_newcomers_and_notices(fault: Any) -> None:
    with pytest.raises(CompositionError, match=r"faults has a (Join|Leave), and this run's crew is fixed: give workers=\(2, 8\)\."):
        play(job(steps, steps), Simulator(faults=(fault,)))


def test_a_crew_that_may_change_is_notified_and_who_stays_after_the_notice_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []
    plan = FaultInjection.plan

    def plan_with_hooks(injection: FaultInjection, planned: Sequence[Fault]) -> None:
        injection.joins, injection.leaves = heard.append, heard.append
        plan(injection, planned)

    monkeypatch.setattr(FaultInjection, "plan", plan_with_hooks)
    faults = (Join(1.0, site="x"), Leave("worker/1", step=2, notice=1.5), Join(step=5))
    ending, events = play(
        replace(job(steps, steps, survives=True), crew=Crew(1, 3, replace=False)), Simulator(network=PLAIN, faults=faults)
    )
    assert heard == [faults[0], "worker/1", faults[2]]
    assert ending.lost == ["worker/1"]
    assert faulted(events) == [
        (1.0, "worker/0", "a worker joins at x"),
        (2.0, "worker/1", "has notice to leave within 1.5 s"),
        (3.5, "worker/1", "crashed at the end of its notice"),
        (5.0, "worker/0", "a worker joins"),
    ]


def test_the_same_seed_gives_the_same_record_with_faults_by_step() -> None:
    rules = (
        pr.hardware.RandomCrashes(rate_per_step=0.1, horizon=STEPS),
        pr.hardware.RandomStalls(rate_per_step=0.2, duration=0.3, horizon=STEPS),
        pr.hardware.RandomCuts("worker/0", "worker/1", rate_per_step=0.3, duration=0.3, horizon=STEPS),
    )

    def record(seed: int) -> bytes:
        return msgspec.json.encode(play(job(*[steps] * 4, survives=True), Simulator(faults=rules, seed=seed))[1])

    assert record(1) == record(1) != record(2)
    assert b"crashed" in record(1)


def test_without_faults_that_wait_for_steps_no_event_is_looked_at() -> None:
    seen: list[Callable[..., object]] = []

    def looks(context: WorkerContext) -> None:
        seen.append(context.record)

    play(job(looks), Simulator(faults=(Crash("worker/0", 1.0),)))
    play(job(looks), Simulator(faults=(Crash("worker/0", step=1),)))
    assert [getattr(record, "__name__", "") for record in seen] == ["append", "_observe"]
