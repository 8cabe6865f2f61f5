"""Laws of pipelines that lose a seat between `train_step` and the optimizer's step, when only some ranks know that the step is complete."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated, CrewChanged, Stepped
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.site import Site
from polyrhythm.partition.pipeline import AroundLost, Pipelined
from polyrhythm.process_group.messages.party import Party

from .pipelines import Language, mean, sample
from .ranks import close

STEPS, ROWS, MICRO = 3, 6, 3
SITES = Network.joined("near and far", [Site(name, 1e9, 1e9, 1e-4) for name in "ab"], {("a", "b"): 0.05, ("b", "a"): 0.005}, {})
"""What a sends is 50 ms on its way, so that the ranks of a know 45 ms before those of b that a step is complete."""
WORKED = torch.ones(60, 60)
EVERY = [f"worker/{rank}" for rank in range(4)]
CREW = pr.Crew(2, 4, replace=False)


def trained(worker: pr.Worker, between: Any) -> None:
    model: nn.Module = Language(4, False)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model, optimizer = worker.attach(model, optimizer, loss=mean)
    for step in worker.range(STEPS):
        worker.count(ROWS if worker.counts_samples else 0)
        optimizer.zero_grad()
        loss = worker.train_step(*sample(10 * step + worker.replica, ROWS))
        if between(worker, step) != "skip":
            optimizer.step()
        worker.report(loss=loss)


def computes(worker: pr.Worker, step: int) -> None:
    """43 ms of virtual time."""
    WORKED @ WORKED


def run_of(*faults: Any, crew: Any = CREW, between: Any = computes, **sizes: int) -> pr.Run:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    on = pr.Simulator(network=SITES, devices=pr.Device("core", 1e7, 0.0), faults=faults)
    return pr.run(lambda worker: trained(worker, between), mesh=pr.Mesh(**(sizes or {"dp": 2, "pp": 2})), workers=crew, cut=cut, on=on)


def same(found: pr.Run, expected: pr.Run) -> None:
    for name, value in found.weights.items():
        close(value, expected.weights[name])


def window(run: pr.Run, step: int) -> tuple[float, float]:
    """From when the first rank knows that a step is complete, to when the last has taken it."""
    closed = [each.time for each in run.outcome.events if isinstance(each, Communicated) and each.axis == "everyone"]
    ends = [each.time for each in run.outcome.events if isinstance(each, Stepped) and each.clock == step]
    return sorted(closed)[len(closed) // STEPS * (step - 1)], max(ends)


@pytest.mark.parametrize("lost", EVERY)
def test_a_step_that_somebody_knows_to_be_complete_is_complete_for_all(lost: str) -> None:
    """It was waited for in vain: that rank had not taken its step, and was about to, and the others did theirs again without it."""
    expected = run_of()
    begin, end = window(expected, 2)
    assert end - begin > 0.08
    for part in (0.02, 0.3, 0.51, 0.9):
        found = run_of(pr.hardware.Crash(lost, begin + part * (end - begin)))
        assert [each.left for each in found.outcome.events if isinstance(each, CrewChanged)] == [(lost,)]
        assert found.summary.steps == expected.summary.steps
        same(found, expected)


@pytest.mark.long
@pytest.mark.parametrize("lost", EVERY)
def test_a_seat_may_be_lost_right_before_and_after_every_event_of_a_step(lost: str) -> None:
    expected = run_of()
    begin, end = window(expected, 2)
    moments = sorted({each.time for each in expected.outcome.events if begin - 1e-6 <= each.time <= end})
    for moment in moments:
        for at in (moment - 1e-9, moment, moment + 1e-9):
            same(run_of(pr.hardware.Crash(lost, at)), expected)


@pytest.mark.long
@pytest.mark.parametrize("second", [0, 1, 2, 3])
def test_a_second_seat_may_be_lost_while_the_others_agree_on_the_first(second: int) -> None:
    """Also the rank that alone knew that the step is complete."""
    crew = pr.Crew(2, 6, replace=False)
    expected = run_of(crew=crew, dp=3, pp=2)
    begin, end = window(expected, 2)
    for part in (0.05, 0.3, 0.6):
        for later in (1e-6, 0.002, 0.006, 0.02, 0.051, 0.06):
            at = begin + part * (end - begin)
            lost = (pr.hardware.Crash("worker/5", at), pr.hardware.Crash(f"worker/{second}", at + later))
            same(run_of(*lost, crew=crew, dp=3, pp=2), expected)


@pytest.mark.parametrize("part", [0.2, 0.7])
def test_steps_that_the_training_function_leaves_out_count_too(part: float) -> None:
    """What is complete is counted by training steps: a loop may leave out the optimizer's after any of them."""

    def skips(worker: pr.Worker, step: int) -> str:
        WORKED @ WORKED
        return "skip" if step == 0 else ""

    expected = run_of(between=skips)
    assert expected.weights["embedding.weight"].ne(run_of().weights["embedding.weight"]).any()
    begin, end = window(run_of(), 3)
    same(run_of(pr.hardware.Crash("worker/3", begin + part * (end - begin)), between=skips), expected)


@pytest.mark.parametrize("lost", EVERY)
def test_calls_that_wait_for_all_may_be_interrupted(lost: str) -> None:
    """Who is interrupted in one that another has completed gets its result, and keeps its own part of the model."""

    def calls(worker: pr.Worker, step: int) -> None:
        worker.barrier()
        assert worker.any(step == 1 and worker.replica == 1) == (step == 1)

    expected = run_of(between=calls)
    begin, end = window(expected, 2)
    for part in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85):
        same(run_of(pr.hardware.Crash(lost, begin + part * (end - begin)), between=calls), expected)


def test_a_process_may_be_killed_when_one_other_has_its_closing_message() -> None:
    """worker/0 has all, and is before its step; worker/1 and worker/2 wait for that of worker/3, which dies in sending it."""
    send = Party.send

    async def dying(party: Party, to: int, part: str, *tensors: Tensor) -> None:
        if party.call.axis == "everyone" and to == 1 and party.rank == 3:
            await party.port.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        await send(party, to, part, *tensors)

    def sleeps(worker: pr.Worker, step: int) -> None:
        if step == 0 and worker.rank == 3:
            Party.send = dying  # type: ignore[method-assign]  # in this process alone
        if step == 1 and worker.rank == 0:
            time.sleep(1.0)

    expected = run_of(crew=None, between=lambda worker, step: None)
    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    on = pr.Processes(timeout=30.0)
    found = pr.run(lambda worker: trained(worker, sleeps), mesh=pr.Mesh(dp=2, pp=2), workers=CREW, cut=cut, on=on)
    assert [each.left for each in found.outcome.events if isinstance(each, CrewChanged)] == [("worker/3",)]
    same(found, expected)
