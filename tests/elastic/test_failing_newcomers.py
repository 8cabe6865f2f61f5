"""Workers that join a run, and whose training function fails on its way: they alone are lost, unless others in their place fail too."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.crew_authority import ATTEMPTS
from polyrhythm.core.kernel.events import CrewChanged, Faulted
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import NoProgressError, WorkerFailed
from polyrhythm.hardware.faults import Crash, Fault, Join
from polyrhythm.systems import resolve

STEPS, WORKERS = 12, 3
Fails = Callable[[pr.Worker, str], None]
DATA = torch.randn(96, 6), torch.randn(96, 3)


def raises(worker: pr.Worker, where: str) -> None:
    if where == "model":
        raise ZeroDivisionError(f"{worker.rank} has no device")


def exits(worker: pr.Worker, where: str) -> None:
    if where == "model":
        raise SystemExit(3)


def fails_at_its_first_step(worker: pr.Worker, where: str) -> None:
    if where == "step":
        raise MemoryError("no memory")


def passes_data(worker: pr.Worker, where: str) -> None:
    if where == "attached":
        next(iter(worker.batches(DATA, batch_size=4)))


def attaches_twice(worker: pr.Worker, where: str) -> None:
    if where == "attached":
        model = torch.nn.Linear(2, 2)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))


def keeps(worker: pr.Worker, where: str) -> None:
    if where == "attached":
        worker.keep(schedule=torch.nn.Linear(1, 1))


def ends(worker: pr.Worker, where: str) -> None:
    if where == "attached":
        worker.finish()


WAYS: list[tuple[Fails, str]] = [
    (raises, "ZeroDivisionError"),
    (exits, r"sys\.exit\(3\)"),
    (fails_at_its_first_step, "MemoryError"),
    (passes_data, r"begins a pass through data where the others began a loop over worker\.epochs or worker\.range\."),
    (attaches_twice, r"has called worker\.attach 2 times, and the others 1 times"),
    (keeps, r"has called worker\.keep with 'schedule', and the others with nothing"),
    (ends, r"has ended before it came to where the others are"),
]


def number(worker: pr.Worker) -> int:
    return rank_of(worker._context.port.name)


def train(fails: Fails, failing: Sequence[int], steps: int = STEPS) -> Callable[[pr.Worker], None]:
    """Those of these numbers fail in that way."""

    def body(worker: pr.Worker) -> None:
        fail = fails if number(worker) in failing else lambda worker, where: None
        fail(worker, "model")
        model = torch.nn.Linear(6, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        fail(worker, "attached")
        for step in worker.range(steps):
            fail(worker, "step")
            worker.count(8)
            optimizer.zero_grad()
            model(torch.full((8, 6), float(step))).sum().backward()
            optimizer.step()

    return body


def play(body: Callable[[pr.Worker], None], *faults: Fault, crew: Crew = Crew(1, WORKERS), system: str = "allreduce", **on: Any) -> Attempt:  # noqa: B008
    return attempt(body, workers=crew, strategy=resolve(system), on=pr.Simulator(network="lan", faults=faults, **on))


LOST = Crash("worker/1", step=2)


@pytest.mark.parametrize("system", ["allreduce", "ssp", "moshpit"])
@pytest.mark.parametrize(("fails", "reason"), WAYS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_newcomer_that_fails_is_lost_alone_and_another_takes_its_place(
    fails: Fails, reason: str, system: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tried = play(train(fails, [4]), LOST, system=system)
    assert tried.error is None
    assert (tried.outcome.summary.steps, tried.outcome.summary.lost) == (STEPS, ["worker/1", "worker/4"])
    *_, last = (event for event in tried.outcome.events if isinstance(event, CrewChanged))
    assert last.members == ("worker/0", "worker/2", "worker/7")
    [fault] = (event for event in tried.outcome.events if isinstance(event, Faulted) and event.actor == "worker/4")
    assert re.search(reason, fault.what)
    assert not re.search("checkpoint|--override|resume", fault.what)
    err = capfd.readouterr().err
    assert "worker/4 joined the run and failed before its first step; the others continue without it" in err
    assert re.search(reason, err)


def test_newcomers_that_all_fail_end_the_run() -> None:
    tried = play(train(raises, range(WORKERS, 99)), LOST)
    assert isinstance(tried.error, NoProgressError)
    assert f"{ATTEMPTS} workers that joined the run one after the other failed before their first step" in str(tried.error)
    assert "ZeroDivisionError" in str(tried.error)
    assert [event.actor for event in tried.outcome.events if isinstance(event, Faulted)] == ["worker/1", "worker/4", "worker/7"][:ATTEMPTS]


def test_a_newcomer_that_takes_a_step_clears_those_that_failed_before_it() -> None:
    """Four fail, and one after the first two does not."""
    faults = [Crash("worker/1", step=2), Crash("worker/2", step=6)]
    tried = play(train(raises, [4, 7, 5, 8]), *faults)
    assert tried.error is None
    assert tried.outcome.summary.lost == ["worker/1", "worker/4", "worker/7", "worker/2", "worker/5", "worker/8"]


def test_those_who_come_by_themselves_end_nothing() -> None:
    tried = play(train(raises, range(WORKERS, 99)), *(Join(step=each) for each in range(1, 10, 2)), crew=Crew(1, 5, start=3, replace=False))
    assert tried.error is None
    assert len(tried.outcome.summary.lost) == 5


def test_a_newcomer_that_fails_after_a_step_ends_the_run_as_any_worker_does() -> None:
    steps: list[int] = []

    def fails(worker: pr.Worker, where: str) -> None:
        if where == "step":
            steps.append(worker.clock)
        if len(steps) == 3:
            raise ZeroDivisionError("at its third step")

    tried = play(train(fails, [4]), LOST)
    assert isinstance(tried.error, WorkerFailed)
    assert tried.error.actor == "worker/4"


def test_a_process_that_has_joined_and_fails_is_lost_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def fails(worker: pr.Worker, where: str) -> None:
        if where == "step":
            time.sleep(0.02)
        if number(worker) in (4, 7) and where == "attached":
            raise ZeroDivisionError("no device")

    on = pr.Processes(faults=(LOST,), timeout=20.0)
    tried = attempt(train(fails, range(99), 60), workers=Crew(1, WORKERS), strategy=resolve("allreduce"), on=on)
    assert tried.error is None
    assert (tried.outcome.summary.steps, tried.outcome.summary.lost) == (60, ["worker/1", "worker/4", "worker/7"])
    faults = {event.actor: event.what for event in tried.outcome.events if isinstance(event, Faulted)}
    assert "failed before its first step: worker/4 failed: ZeroDivisionError: no device" in faults["worker/4"]
    assert "test_failing_newcomers.py" in capfd.readouterr().err, "the user sees where"
