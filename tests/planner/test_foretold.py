"""Paces that timings of a small model foretell, and what runs of a search take by the clock."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from polyrhythm.core.records.progress import ignore
from polyrhythm.core.tensors import Layout
from polyrhythm.hardware.devices import DEVICES, Device
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network, Site, load
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.chosen_machines import choices_of
from polyrhythm.tools.planner.foretold import Foretelling, PacesTask, small_shape
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.pace import StepPace
from polyrhythm.tools.planner.proxy.true_timing import true_timing
from polyrhythm.tools.planner.run_times import RunTimes
from polyrhythm.tools.planner.shared_curves import SharedCurves

from .jobs import NETWORK, SLOW, findings

UNEQUAL = Fleet((SLOW, Device("old", SLOW.flops / 4)))
WIDE = Layout(("a", "b", "c", "d"), ((256, 96), (256,), (256, 256), (256,)))
SHAPE = StepShape(WIDE, 2e7, 16, dtype=torch.float32)
SYSTEMS = ("allreduce", "ssp", "gossiping-sgd", "diloco", "local-sgd", "onebit", "signsgd", "sandblaster", "byteps", "moshpit", "demo")


@pytest.mark.parametrize("network", ["lan", "cloud", "slow"])
def test_paces_are_foretold_by_a_small_model(network: str) -> None:
    scenario = findings().scenario.elsewhere(network=load(network), devices=Fleet((DEVICES["cpu-core"],)))
    small = small_shape(SHAPE)
    assert SHAPE.layout.numel / small.layout.numel > 2
    for system in SYSTEMS:
        candidate = Candidate(system, 4)
        whole, little = true_timing(scenario, candidate, SHAPE), true_timing(scenario, candidate, SHAPE, small)
        assert little.cut * small.layout.numel == pytest.approx(SHAPE.layout.numel)
        assert little.pace[0] == pytest.approx(whole.pace[0], rel=0.15), system
        assert little.pace[1] == pytest.approx(whole.pace[1], rel=0.3), system


@pytest.mark.parametrize("system", [*SYSTEMS, "fedavg", "mxnet-async", "adpsgd", "fedbuff"])
def test_on_unequal_machines_a_timing_and_a_run_have_the_pace_of_all_while_all_train(system: str) -> None:
    found, candidate = findings((system,), (4,), "loss=1e-12"), Candidate(system, 4)
    found.scenario = found.scenario.elsewhere(network=load("lan"), devices=UNEQUAL)
    timing, batch = true_timing(found.scenario, candidate, replace(found.shape(), samples=8)), found.batch(candidate)
    samples = 60.0 * found.per_step(candidate)
    found.foretold[candidate] = StepPace((0.0, 0.0, 0.0), timing.pace[0] * 4 * batch, 0.0, ahead=timing.ahead)
    steps = found.steps(candidate, samples)
    run = found.keep(candidate, 0, steps, found.task(candidate, 0, steps, math.inf, math.inf).attempt(None))
    assert run.whole[2] >= 0.9 * samples  # there are as many samples as it was to have when the first worker ends
    assert steps == pytest.approx(found.steps(candidate, samples), rel=0.1)
    shared = SharedCurves(found)
    pace = shared.paces().of(candidate)
    assert timing.pace[0] * found.per_step(candidate) == pytest.approx(pace.seconds, rel=0.3 if candidate.strategy.chooses else 0.15)
    assert pace.seconds >= 0.97 * shared.computing(candidate)
    assert run.sample_seconds * found.per_step(candidate) == pytest.approx(pace.seconds, rel=0.25)


def test_what_waits_for_nobody_is_as_fast_as_all_machines_together() -> None:
    found = findings(("mxnet-async", "allreduce", "fedbuff"), (4,))
    found.scenario = found.scenario.elsewhere(network=load("lan"), devices=UNEQUAL)
    shared, shape = SharedCurves(found), replace(found.shape(), samples=8)
    one = shape.flops / SLOW.flops
    for system, seconds in (
        ("mxnet-async", 4 / (2 / one + 2 / (4 * one))),
        ("fedbuff", 4 / (2 / one + 2 / (4 * one))),
        ("allreduce", 4 * one),
    ):
        candidate = Candidate(system, 4)
        assert shared.computing(candidate) == pytest.approx(seconds)
        assert true_timing(found.scenario, candidate, shape).pace[0] * 32 == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("shapes", [((4096, 4096), (4096,)), ((50257, 768), (768,), (3072, 768)), ((64, 3, 3, 3), (10, 64)), ((100,),)])
def test_a_small_model_keeps_what_sides_have_in_common_with_tiles(shapes: tuple[tuple[int, ...], ...]) -> None:
    shape = replace(SHAPE, layout=Layout(tuple(map(str, range(len(shapes)))), shapes))
    small = small_shape(shape)
    assert small.layout.numel <= 70_000
    for sides, own in zip(small.layout.shapes, shapes, strict=True):
        assert [math.gcd(side, 64) for side in sides] == [math.gcd(side, 64) for side in own]
        assert all(side <= each for side, each in zip(sides, own, strict=True))


def test_what_takes_long_to_time_has_no_pace_and_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(("allreduce", "ssp"), (2,))
    foretelling = Foretelling(found.scenario, found.shape(), 8)
    wanted = [Candidate("ssp", 2), Candidate("allreduce", 2)]
    for longest, known in ((0.0, set()), (60.0, set(wanted))):
        monkeypatch.setattr("polyrhythm.tools.planner.foretold._LONGEST", longest)
        for task, then in foretelling.runs(wanted, lambda: True):
            assert isinstance(task, PacesTask)
            then(task.attempt(None, ignore))
        assert set(foretelling.paces) == known
    assert all(isinstance(pace, StepPace) and pace.seconds > 0 for pace in foretelling.paces.values())
    assert list(foretelling.runs(wanted, lambda: False)) == []


def test_runs_take_a_start_and_steps_by_the_clock() -> None:
    def made(real: float, samples: float) -> TrainedRun:
        return TrainedRun([], -1, 1.0, 0.0, samples, 10, real=real)

    one, two = Candidate("ssp", 2), Candidate("allreduce", 2)
    times = RunTimes([(one, made(0.2, 0.0)), (one, made(1.2, 80.0)), (two, made(4.2, 80.0))], lambda each: 8)
    assert times.seconds(one, 10) == pytest.approx(0.2 + 20 * 0.1)
    assert times.seconds(two, 10) == pytest.approx(0.2 + 20 * 0.4)
    assert times.seconds(Candidate("dgc", 2), 10) == pytest.approx(0.2 + 20 * 0.25)
    assert RunTimes([], lambda each: 8).seconds(one, 10) == 0.0


def test_of_sites_that_are_alike_nothing_is_left_out_but_all_others() -> None:
    alike = Network("two", (Site("a", 1e6, 1e6), Site("b", 1e6, 1e6)), ((0.0, 0.1), (0.1, 0.0)), ((1e9, 1e5), (1e5, 1e9)))
    words = [each.words for each in choices_of(Fleet((SLOW,)), alike, 4)]
    assert words == ["at a alone", "at b alone"]
    slower = replace(alike, sites=(alike.sites[0], Site("b", 1e5, 1e6)))
    [first, *_] = choices_of(Fleet((SLOW,)), slower, 4)
    assert first.unlike
    assert choices_of(Fleet((SLOW,)), NETWORK, 4) == ()
