"""A run that adapts, and plans from a run: what its record shows of its machines, and what is changed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.core.records.outcome import OPTIONS
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet, Straggler, fleet
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.site import Access
from polyrhythm.systems import find
from polyrhythm.tools.planner.adapting import Adapting, RunPart
from polyrhythm.tools.planner.answer import Choice
from polyrhythm.tools.planner.change_now import advice, best_change, own_candidate, run_own
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.recorded import USUAL, RecordedRun
from polyrhythm.tools.planner.space import Space

from .jobs import NETWORK, SLOW, data, findings, planner

WORKERS = 4
TARGET = "loss=0.05"
SLOW_LINE = replace(NETWORK, accesses=((3, Access(2500.0, 2500.0)),))
LATE = Fleet((SLOW,), (Straggler(1, 4.0),))
TRUTHS = {"a slow line": (SLOW_LINE, fleet(SLOW)), "a slowed worker": (NETWORK, LATE), "both": (SLOW_LINE, LATE)}
MOST = 1.1
"""The bound of the specification: the time to the target by that of the plan made with knowledge beforehand."""


def uneven(worker: pr.Worker, epochs: int = 60, batch_size: int = 8) -> None:
    """Least squares on features of very different size, which takes long; the rate is fixed."""
    x, _ = data()
    x = x * torch.logspace(0, -0.9, x.shape[1])
    y = x.sum(1, keepdim=True)
    torch.manual_seed(0)
    model: Any = torch.nn.Linear(x.shape[1], 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
    worker.evaluate(lambda found: {"loss": (found(x) - y).square().mean().item()})
    for _ in worker.epochs(epochs):
        for a, b in worker.batches((x, y), batch_size=batch_size):
            optimizer.zero_grad()
            (model(a) - b).square().mean().backward()
            optimizer.step()


def planner_on(network: Network, devices: Fleet, target: str = TARGET, seconds: float = 6.0) -> Planner:
    found = findings(systems=("allreduce", "ssp", "adpsgd"), workers=(WORKERS,), train=uneven, target=target)
    found.scenario = found.scenario.elsewhere(network=network, devices=devices)
    found.space = replace(Space.of(found.scenario, found.space.systems, (WORKERS,)), batch=None)
    return planner(found, seconds)


def recorded(network: Network, devices: Fleet, steps: int = 16) -> RecordedRun:
    on = pr.Simulator(network, devices)
    return RecordedRun(attempt(Limited(uneven, steps), workers=WORKERS, strategy=find("allreduce"), on=on).outcome)


def test_a_record_shows_the_slow_worker_and_the_slow_line() -> None:
    late = recorded(NETWORK, LATE)
    assert [machine.name for machine in late.fleet.machines] == [USUAL, "worker/1", USUAL, USUAL]
    usual, slow = (late.fleet.machines[place].step_seconds(0.0, 0) for place in (0, 1))
    assert slow == pytest.approx(4 * usual, rel=0.05)
    assert late.network.sites[0].latency == pytest.approx(5e-3)
    assert late.network.sites[0].egress > 50e3  # messages are so small that latency is nearly all of their time
    assert late.network.accesses == ()
    line = recorded(SLOW_LINE, fleet(SLOW))
    assert {machine.name for machine in line.fleet.machines} == {USUAL}
    [(host, access)] = line.network.accesses
    assert (host, access.egress) == (3, pytest.approx(2500.0, rel=0.4))


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_workers_of_which_no_two_are_alike_have_a_usual_one(workers: int) -> None:
    late = Fleet((SLOW,), tuple(Straggler(worker, 4.0 ** (worker % 2) * 1.5**worker) for worker in range(workers)))
    run = attempt(Limited(uneven, 8), workers=workers, strategy=find("allreduce"), on=pr.Simulator(NETWORK, late))
    found = RecordedRun(run.outcome).fleet
    seconds = [machine.step_seconds(0.0, 0) for machine in found.machines]
    assert seconds[1] > 4 * seconds[0]
    assert USUAL in {machine.name for machine in found.machines}


def test_a_plan_from_a_run_says_what_to_change_now_with_the_gain() -> None:
    run = recorded(NETWORK, LATE)
    made = planner_on(run.network, run.fleet, target="loss=1.5", seconds=3.0)
    made.plan()
    run_own(run, made)
    text = advice(run, made)
    assert "Change now to" in text
    assert "times as long" in text


def test_the_runs_own_way_without_the_slow_worker_is_tried_also_where_the_search_did_not() -> None:
    on, made = pr.Simulator(NETWORK, LATE), planner_on(NETWORK, LATE, target="loss=1.5", seconds=1.5)  # easgd is not searched
    made.plan()
    run = RecordedRun(attempt(Limited(uneven, 16), workers=WORKERS, strategy=find("easgd"), on=on).outcome)
    run_own(run, made)
    assert {each.machines.places for each in made.found.trainings if each.system == "easgd"} == {(), (0, 2, 3)}


def test_nothing_is_said_or_changed_of_a_run_whose_own_way_was_not_tried() -> None:
    on, made = pr.Simulator(NETWORK, LATE), planner_on(NETWORK, LATE, target="loss=1.5", seconds=3.0)
    made.plan()
    for system, options in (("ssp", {"slack": 5}), ("easgd", {})):  # not as its paper has it, and not among those that were tried
        run = RecordedRun(attempt(Limited(uneven, 16), workers=WORKERS, strategy=find(system, **options), on=on).outcome)
        assert (own_candidate(run) is None) == bool(options)
        assert best_change(run, made) is None
        assert "How long the run takes as it is, is not known" in advice(run, made)


def test_a_run_with_options_of_its_system_is_compared_as_it_is() -> None:
    on, made = pr.Simulator(NETWORK, LATE), planner_on(NETWORK, LATE, target="loss=1.5", seconds=1.5)
    made.plan()
    for system, options in [("ssp", {"slack": 1}), ("ssp", {"slack": 3}), ("easgd", {"tau": 5, "moving_rate": 0.5})]:
        notes = {OPTIONS: msgspec.json.encode(options).decode()}
        run = RecordedRun(attempt(Limited(uneven, 16), workers=WORKERS, strategy=find(system, **options), on=on, notes=notes).outcome)
        run_own(run, made)
        own = own_candidate(run)
        assert own is not None
        assert repr(own.strategy) == repr(find(system, **options))
        assert ("slack", 3) not in own.options  # as the paper has it: the candidate of the search
        assert made.found.trainings[own]
        assert "is not known" not in advice(run, made)


def test_a_run_that_has_met_the_target_is_not_told_to_go_on_for_no_time() -> None:
    run = recorded(NETWORK, LATE)
    assert "That is the target already" in advice(run, planner_on(run.network, run.fleet, target="loss=1000", seconds=1.0))


def test_without_a_fault_the_run_goes_on_to_the_bits_of_one_that_was_not_looked_at(tmp_path: Path) -> None:
    data()  # whoever calls it first computes it, in virtual time too
    on = pr.Simulator(NETWORK, SLOW)
    adapted = Adapting(RunPart(uneven_short, find("allreduce"), 2, on), seeded(3), tmp_path, _never, look=4).run()
    assert adapted.causes == []
    assert adapted.changed is None
    assert adapted.looks == [
        "After 4 steps the run was looked at. No worker and no line is at fault. It goes on as it is until step 16.",
        "After 16 steps the run was looked at. No worker and no line is at fault. It goes on as it is until step 64.",
        "After 64 steps the run was looked at. No worker and no line is at fault. It goes on as it is, and is not looked at again.",
    ]
    assert adapted.parts[1].outcome.settings["looks"].splitlines() == [adapted.looks[0], "The run is looked at after 16 steps."]
    assert adapted.parts[-1].outcome.settings["looks"].splitlines() == adapted.looks
    whole = pr.run(uneven_short, workers=2, strategy="allreduce", on=on, seed=3)
    last = adapted.parts[-1].outcome.summary
    assert last.weights_sha256 == whole.summary.weights_sha256
    assert last.virtual_seconds == pytest.approx(whole.summary.virtual_seconds, rel=0.02)  # weights are copied again


def seeded(seed: int) -> Callable[[RunPart], Attempt]:
    """Makes the parts of a run."""

    def make(part: RunPart) -> Attempt:
        return attempt(
            part.train, workers=part.workers, strategy=part.strategy, on=part.on, seed=seed, checkpoints=part.checkpoints, notes=part.notes
        )

    return make


@pytest.mark.parametrize("steps", [3, 4, 5, 16])
def test_a_run_that_is_over_at_a_look_or_before_it_is_whole(steps: int, tmp_path: Path) -> None:
    """Four looks at most: after 4 steps and 16."""
    on = pr.Simulator(NETWORK, SLOW)
    job = Limited(uneven_short, steps)
    adapted = Adapting(RunPart(job, find("allreduce"), 2, on), seeded(3), tmp_path, _never, look=4).run()
    whole = pr.run(job, workers=2, strategy="allreduce", on=on, seed=3)
    assert adapted.parts[-1].outcome.summary.weights_sha256 == whole.summary.weights_sha256
    assert len(adapted.parts) == 1 + (steps > 4)
    assert f"The run was over after {steps} steps" in adapted.looks[-1]


def test_where_nothing_can_be_searched_for_the_run_goes_on_in_the_way_that_was_asked_for_and_says_why(tmp_path: Path) -> None:
    def refuses(recorded: RecordedRun) -> Planner:
        raise CompositionError("There is no such metric.")

    asked = RunPart(uneven_short, find("ssp", slack=2), WORKERS, pr.Simulator(NETWORK, LATE))
    adapted = Adapting(asked, seeded(1), tmp_path, refuses, look=4).run()
    assert [cause.kind for cause in adapted.causes] == ["slow worker"]
    assert adapted.advice == "No other way was looked for, and the run goes on as it was. There is no such metric."
    assert [part.error for part in adapted.parts] == [None, None]
    assert {part.outcome.settings["strategy"] for part in adapted.parts} == {repr(find("ssp", slack=2))}
    assert adapted.parts[-1].outcome.summary.steps > 4
    assert "slow worker: worker/1 computes" in adapted.looks[0]
    assert adapted.looks[1] == f"{adapted.advice} It goes on as it is."


def test_the_part_up_to_the_end_writes_the_checkpoints_that_were_asked_for(tmp_path: Path) -> None:
    wanted = pr.Checkpoints(tmp_path / "asked", every=2)
    asked = RunPart(partial(uneven, epochs=6), find("allreduce"), 2, pr.Simulator(NETWORK, SLOW), wanted)
    Adapting(asked, seeded(3), tmp_path / "cuts", _never, look=1).run()
    assert [*(tmp_path / "asked").glob("step-*")]


def uneven_short(worker: pr.Worker) -> None:
    uneven(worker, epochs=3)


def _never(recorded: RecordedRun) -> Planner:
    raise AssertionError("nothing is at fault")


def together(choices: list[Choice]) -> Choice:
    return next(choice for choice in choices if not choice.is_alone)


@pytest.mark.long
@pytest.mark.parametrize("what", ["a slowed worker", "both"])  # a slow line alone: 1.19 times, of a run of 11 s (docs/diagnosing.md)
def test_a_run_that_adapts_takes_little_more_than_the_plan_made_with_knowledge(what: str, tmp_path: Path) -> None:
    network, devices = TRUTHS[what]
    target = parse_target(TARGET)
    known = together(planner_on(network, devices).plan().choices)
    some = pr.hardware.some_machines(network, devices, known.machines.places or tuple(range(WORKERS)), of=WORKERS)
    planned = target.first_reached(pr.run(uneven, workers=known.workers, strategy=known.strategy, on=pr.Simulator(*some), seed=1).outcome)
    on = pr.Simulator(network, devices)
    asked = RunPart(uneven, find("allreduce"), WORKERS, on)
    adapted = Adapting(asked, seeded(1), tmp_path, lambda run: planner_on(run.network, run.fleet), look=6).run()
    reached = target.first_reached(adapted.parts[-1].outcome)
    assert adapted.causes
    assert planned is not None
    assert reached is not None
    assert reached.time <= MOST * planned.time, f"{reached.time:.3g} s, where {planned.time:.3g} s were possible: {adapted.advice}"
