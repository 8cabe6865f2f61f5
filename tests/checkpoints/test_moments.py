"""When checkpoints are written: every so many steps, or at the interval that costs least; all workers agree on the step."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.checkpoints.moments import ByCost, EverySteps, MeasuredCosts, OnRequest, best_interval, seconds_between_failures
from polyrhythm.core.kernel.events import Saved
from polyrhythm.core.processes.runtime.stall_detection import SILENT_SECONDS
from polyrhythm.core.training.checkpoint_costs import CheckpointCosts
from polyrhythm.errors import CompositionError

DAY = 24 * 3600.0
COSTS = [(30.0, 300.0, DAY), (5.0, 60.0, 3600.0), (60.0, 600.0, 3 * 3600.0), (1.0, 20.0, 600.0)]


def seconds_taken(interval: float, write: float, restart: float, failures: float, wanted: float, seed: int) -> float:
    """How long a run takes for so many `wanted` seconds of work: a failure loses all since the last checkpoint, and takes a restart."""
    draw, now, done = random.Random(seed), 0.0, 0.0
    fails = draw.expovariate(1 / failures)
    while done < wanted:
        if now + interval <= fails:
            now, done = now + interval, done + interval - write
        else:
            now = fails + restart
            fails = now + draw.expovariate(1 / failures)
    return now


@pytest.mark.parametrize(("write", "restart", "failures"), COSTS)
def test_no_interval_of_a_sweep_costs_much_less_than_the_formulas(write: float, restart: float, failures: float) -> None:
    best, wanted = best_interval(write, restart, failures), 40 * failures

    def lost(interval: float) -> float:
        return sum(seconds_taken(interval, write, restart, failures, wanted, seed) / wanted - 1 for seed in range(20))

    found = {factor: lost(factor * best) for factor in (0.25, 0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.5, 4.0)}
    assert found[1.0] <= 1.1 * min(found.values())
    assert max(found[0.25], found[4.0]) > 1.1 * found[1.0], "the sweep is wide enough to show a minimum"


@pytest.mark.parametrize("steps", [1, 2, 7, 20])
def test_a_fixed_number_of_steps_is_due_at_its_multiples(steps: int) -> None:
    rule = EverySteps(steps)
    for last in range(50):
        for clock in range(last, 60):
            assert (clock >= rule.after(last)) == (clock // steps > last // steps)


def measured(step: float = 0.5, write: float = 10.0, losses: int = 0, workers: int = 4, seconds: float = DAY) -> MeasuredCosts:
    return MeasuredCosts(step, write, 60.0, seconds, workers, losses)


def test_the_next_checkpoint_is_one_interval_later_and_not_sooner_than_a_loss_is_noticed() -> None:
    assert ByCost(mtbf=24.0).agreed(100, measured()) == 100 + round(best_interval(10.0, 60.0, DAY) / 0.5)
    assert ByCost().agreed(100, measured(write=0.0)) == 100 + round(SILENT_SECONDS / 0.5)
    assert ByCost().agreed(100, measured(step=1e9)) == 101
    assert ByCost().agreed(100, measured(step=0.0)) == ByCost().after(100)
    assert [rule.agreed(100, measured()) for rule in (EverySteps(5), OnRequest())] == [None, None]
    assert OnRequest().after(0) > 10**15


def test_losses_shorten_the_interval_and_quiet_time_lengthens_it() -> None:
    assert seconds_between_failures(measured(seconds=0.0)) == DAY / 4
    by_losses = [seconds_between_failures(measured(losses=losses)) for losses in range(5)]
    assert by_losses == sorted(by_losses, reverse=True)
    by_time = [seconds_between_failures(measured(seconds=days * DAY)) for days in range(5)]
    assert by_time == sorted(by_time)


def test_steps_and_writing_are_timed_from_the_checkpoint_before() -> None:
    clock = iter([103.0, 123.0, 124.0, 144.0, 146.0])
    costs = CheckpointCosts(lambda: next(clock), 100.0, 0, 4, lambda: 1)
    costs.ready()
    assert costs.written(10) == MeasuredCosts(2.0, 1.0, 3.0, 24.0, 4, 1)
    costs.ready()
    assert costs.written(20) == MeasuredCosts(2.0, 2.0, 3.0, 46.0, 4, 1)


def train(worker: pr.Worker) -> None:
    model = nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in worker.epochs(2):
        for x, y in worker.batches((torch.ones(96, 4), torch.ones(96, 1)), batch_size=2):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


@pytest.mark.parametrize("name", ["allreduce", "downpour"])
def test_all_workers_write_the_same_checkpoints_and_a_resumed_run_goes_on_with_them(name: str, tmp_path: Path) -> None:
    def saved(resume: bool | Path) -> list[int]:
        on = pr.Simulator(network="lan", devices=pr.hardware.Profile("slow", (5.0, 4.0)))
        directory = tmp_path / ("again" if resume else "first")
        wanted = pr.Checkpoints(directory, every="auto", keep=100, resume=resume)
        events = pr.run(train, workers=3, strategy=name, on=on, seed=3, checkpoints=wanted).outcome.events
        assert len(list(directory.glob("step-*"))) == len([event for event in events if isinstance(event, Saved)])
        return [event.clock for event in events if isinstance(event, Saved)]

    steps = saved(False)
    assert steps[0] == 10
    assert {after - before for before, after in pairwise(steps)} <= {3, 4}, "fifteen seconds of virtual time"
    assert saved(tmp_path / "first" / f"step-{steps[1]:08d}")[0] == steps[1] + 10


def test_settings_of_automatic_checkpoints_are_checked(tmp_path: Path) -> None:
    assert pr.Checkpoints(tmp_path, every="auto", mtbf=12).moments == ByCost(12)
    for options, message in (
        ({"every": "auto"}, "every=auto was given without a directory"),
        ({"directory": tmp_path, "every": "often"}, "every='often' is not a whole number"),
        ({"directory": tmp_path, "every": 3, "mtbf": 2.0}, r"mtbf=2.0 was given without every='auto'"),
        ({"directory": tmp_path, "every": "auto", "mtbf": 0}, "mtbf=0 is no time between failures"),
    ):
        with pytest.raises(CompositionError, match=message):
            pr.Checkpoints(**options)  # type: ignore[arg-type]
