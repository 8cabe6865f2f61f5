"""Steps of several models: together, in turns, and one after the other; checkpoints fall due in each phase, in both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Saved, Stepped
from polyrhythm.core.training.step_numbers import StepNumbers
from polyrhythm.hardware.faults import Crash

PHASE = 12
"""Steps of each model."""
SAME = torch.eye(3)


def numbered(iterations: list[list[int]], models: int) -> tuple[list[int], list[int]]:
    """The steps that each of the models has taken at last, and the number after each step."""
    held: list[Any] = [SimpleNamespace(clock=0) for _ in range(models)]
    numbers, seen = StepNumbers(lambda: held), []
    for iteration in iterations:
        for place in iteration:
            held[place].clock += 1
            seen.append(numbers.clock)
        numbers.ends()
    return [each.clock for each in held], seen


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=20))
def test_each_iteration_counts_as_many_steps_as_one_takes_in_it(iterations: list[list[int]]) -> None:
    _, seen = numbered(iterations, 3)
    assert seen == sorted(seen)
    assert (seen[-1] if seen else 0) == sum(max(map(iteration.count, range(3))) for iteration in iterations)


@given(st.lists(st.lists(st.integers(1, 2), max_size=3), min_size=1, max_size=20))
def test_where_one_steps_in_every_iteration_as_often_as_others_its_steps_are_those_of_the_worker(others: list[list[int]]) -> None:
    clocks, seen = numbered([[*each, *[0] * max(1, len(each))] for each in others], 3)
    assert seen[-1] == clocks[0] == max(clocks)


@given(st.lists(st.integers(0, 2), max_size=30))
def test_outside_of_loops_a_step_that_one_takes_again_is_another(steps: list[int]) -> None:
    held: list[Any] = [SimpleNamespace(clock=0) for _ in range(3)]
    numbers, before = StepNumbers(lambda: held), 0
    for place in steps:
        numbers.begins(held[place])
        held[place].clock += 1
        assert numbers.clock - before in (0, 1)
        before = numbers.clock
    for _ in range(5):
        numbers.begins(held[0])
        held[0].clock += 1
    assert numbers.clock >= before + 4


def two(worker: pr.Worker) -> Callable[[int], None]:
    """Attach a model, and one on its outputs; the function takes a step of either."""
    first, second = nn.Linear(3, 3), nn.Linear(3, 1)
    models = [worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.05)) for model in (first, second)]

    def step(number: int, inputs: torch.Tensor = SAME) -> None:
        models[number][1].zero_grad()
        codes = first(inputs)
        (codes - inputs if number == 0 else second(codes.detach()) - 1).square().mean().backward()
        models[number][1].step()

    return step


def in_phases(worker: pr.Worker) -> None:
    """Train the second when the first is trained, on batches."""
    step = two(worker)
    inputs = torch.randn(2 * PHASE * worker.workers, 3, generator=torch.Generator().manual_seed(0))
    for number in (0, 1):
        for (batch,) in worker.batches((inputs,), 2):
            step(number, batch)


def by_its_clock(worker: pr.Worker) -> None:
    """The same, without loops over anything of the worker's."""
    step = two(worker)
    while worker.clock < 2 * PHASE - 1:
        worker.count(3)
        step(0 if worker.clock < PHASE else 1)


@pytest.mark.parametrize(
    ("train", "on"),
    [
        pytest.param(in_phases, pr.Simulator(), id="simulator"),
        pytest.param(by_its_clock, pr.Simulator(), id="simulator-without-loops"),
        pytest.param(in_phases, pr.Processes(), id="processes"),
        pytest.param(by_its_clock, pr.Processes(), id="processes-without-loops", marks=pytest.mark.long),
    ],
)
def test_checkpoints_fall_due_in_both_phases_and_a_run_resumes_in_either(train: Any, on: Any, tmp_path: Path) -> None:
    kept = pr.Checkpoints(tmp_path, every=5, keep=10)
    whole = pr.run(train, workers=2, strategy="allreduce", on=on, seed=3, checkpoints=kept)
    assert [event.clock for event in whole.outcome.events if isinstance(event, Saved)] == [5, 10, 15, 20]
    assert whole.summary.steps == 2 * PHASE - (train is by_its_clock)
    for step in (10, 20):
        again = pr.run(
            train, workers=2, strategy="allreduce", on=on, seed=3, checkpoints=pr.Checkpoints(resume=tmp_path / f"step-{step:08d}")
        )
        assert again.summary.weights_sha256 == whole.summary.weights_sha256, step
        assert (again.summary.steps, again.summary.samples) == (whole.summary.steps, whole.summary.samples)


def test_every_step_of_both_phases_has_a_number_of_its_own_in_the_record() -> None:
    run = pr.run(in_phases, workers=2, strategy="ssp", on=pr.Simulator())
    clocks = [event.clock for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]
    assert clocks == list(range(1, 2 * PHASE + 1))


@pytest.mark.parametrize("strategy", ["allreduce", "diloco"])
def test_a_crew_goes_on_in_the_second_phase_without_one_that_is_lost_there(strategy: str, tmp_path: Path) -> None:
    crash, crew = Crash("worker/1", step=PHASE + 5), pr.Crew(2, 3, replace=False)
    kept = pr.Checkpoints(tmp_path, every=2, keep=20)
    run = pr.run(by_its_clock, workers=crew, strategy=strategy, on=pr.Simulator(faults=(crash,)), checkpoints=kept)
    assert run.summary.lost == ["worker/1"]
    assert run.summary.steps == 2 * PHASE - 1
    assert max(event.clock for event in run.outcome.events if isinstance(event, Saved)) == 2 * PHASE - 2


def test_a_resumed_worker_counts_on_while_some_of_its_models_are_still_to_come() -> None:
    held: list[Any] = [SimpleNamespace(clock=10), SimpleNamespace(clock=14)]
    numbers = StepNumbers(lambda: held)
    numbers.restore({"numbers": {"before": 30, "clocks": [10, 12, 8]}})
    assert numbers.clock == 32
    numbers.ends()
    held.append(SimpleNamespace(clock=9))
    assert numbers.clock == 33
