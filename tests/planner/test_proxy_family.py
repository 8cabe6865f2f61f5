"""Families of smaller models: found by a setting's name, or given; and the true model, counted without being made."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.network import load
from polyrhythm.tools.measuring.timing import shape_of, time_shape
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.proxy.counted import META, STEP, counted
from polyrhythm.tools.planner.proxy.family import family_of
from polyrhythm.tools.planner.proxy.matched import matched
from polyrhythm.tools.planner.proxy.sizes import affordable, count_family
from polyrhythm.tools.planner.proxy.true_timing import true_timing
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.workloads.load import load_workload


def scenario(train: Any, **settings: Any) -> Scenario:
    """The JOB on a slow network."""
    return Scenario("job", train, parse_target("loss=1"), load("slow"), fleet("cpu-core"), settings=settings)


def job(worker: pr.Worker, n_layer: int = 4, d_model: int = 64, lr: float = 0.1) -> None:
    """A job that is never run here."""


def without_size(worker: pr.Worker, lr: float = 0.1) -> None:
    """A job whose model has one size."""


GPT = load_workload("chars-gpt", {"context": 8, "layers": 1, "samples": 64})


def test_the_width_is_found_by_its_name_before_the_depth() -> None:
    family = family_of(["auto"], scenario(job))
    assert family.true == (("d_model", 64),)
    assert [size[0][1] for size in family.sizes] == sorted({size[0][1] for size in family.sizes})
    assert len(family.sizes) >= 4
    assert family.sizes[-1][0][1] < 64


def test_sizes_that_the_job_refuses_are_passed_over() -> None:
    family = family_of(["width"], scenario(GPT, heads=4))
    assert all(dict(size)["width"] % 4 == 0 for size in family.sizes)


def test_a_given_family_is_read_as_the_settings_are_typed() -> None:
    family = family_of(["d_model=32,8,16", "n_layer=2,1,2"], scenario(job))
    assert family.sizes == ((("d_model", 8), ("n_layer", 1)), (("d_model", 16), ("n_layer", 2)), (("d_model", 32), ("n_layer", 2)))
    assert family.true == (("d_model", 64), ("n_layer", 4))


def test_the_true_value_is_that_of_the_settings() -> None:
    assert family_of(["d_model=8,16,32"], scenario(job, d_model="768")).true == (("d_model", 768),)


@pytest.mark.parametrize(
    ("train", "given", "words"),
    [
        (without_size, ["auto"], "keyword such as width=768"),
        (job, ["d_model=32"], "A family of 1 size says nothing"),
        (job, ["d_model=16,32"], "give 3 or more"),
        (job, ["d_model=16,32,64"], "d_model=64 is not smaller than the JOB's own d_model=64"),
        (job, ["d_model=16,16,32"], "named twice"),
        (job, ["d_model=16,32,48", "n_layer=1,2"], "give each as many"),
        (job, ["d_model=16,32,48", "n_layer"], "names no setting and its values"),
        (job, ["lr"], "has no smaller sizes"),
    ],
)
def test_a_family_that_says_nothing_is_refused(train: Any, given: list[str], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        family_of(given, scenario(train))


def test_settings_and_values_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="n_layer"):
        family_of(["n_layers=1,2,3"], scenario(job))
    with pytest.raises(PolyrhythmError, match="whole number"):
        family_of(["d_model=a,b,c"], scenario(job))


def test_a_model_is_counted_on_shapes_as_in_real_steps() -> None:
    real, found = shape_of(GPT), counted(GPT, 16)
    assert found.how == META
    assert (found.shape.layout, found.parameters) == (real.layout, real.layout.numel)
    assert found.shape.flops == pytest.approx(real.flops, rel=0.1)  # attention is computed anew in backward() on a processor
    assert set(found.shape.classes) == set(real.classes)


def test_a_model_of_a_hundred_million_parameters_is_counted_without_its_memory() -> None:
    large = load_workload("chars-gpt", {"width": 768, "layers": 14, "samples": 64})
    assert counted(large, 16).parameters == 99_348_480


@pytest.mark.long
def test_sizes_are_as_large_as_there_is_time_for() -> None:
    whole = scenario(load_workload("chars-gpt", {"context": 4, "layers": 1, "heads": 1, "samples": 64, "width": 40}))
    family = count_family(family_of(["width"], whole), whole)
    none, much = (affordable(family, whole, 10, seconds) for seconds in (0.0, 1e9))
    assert none.sizes == family.sizes[:3]
    assert len(much.sizes) == 4
    assert much.sizes[-1] == family.sizes[-1]
    assert all(a.parameters < b.parameters for a, b in pairwise(much.sizes))


def needs_values(worker: pr.Worker, width: int = 8) -> None:
    """A job that looks at the values of its weights."""
    model: Any = torch.nn.Linear(width, 1)
    for row in model.weight.nonzero():
        assert row is not None
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for (x,) in worker.batches((torch.ones(32, width),), batch_size=8):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def test_a_job_that_needs_values_is_counted_in_real_steps() -> None:
    assert counted(needs_values, 8).how == STEP


@pytest.mark.parametrize("system", ["allreduce", "sparknet", "ssp", "powersgd"])
def test_a_proxy_on_matched_machines_takes_as_long_as_the_model(system: str) -> None:
    whole = scenario(load_workload("chars-gpt", {"context": 8, "layers": 2, "samples": 64, "width": 64}), heads=2)
    family = count_family(family_of(["width=16,24,32"], whole), whole)
    small = count_family(family.family, whole).sizes[-1]
    there = matched(whole, family.true, small.parameters)
    proxy = counted(whole.set(dict(small.settings)), family.batch)
    own = true_timing(whole, Candidate(system, 4), family.true.shape)
    its = true_timing(there, Candidate(system, 4), proxy.shape)
    assert its.at(2000)[0] == pytest.approx(own.at(2000)[0], rel=0.15)


@pytest.mark.parametrize("system", ["allreduce", "powersgd", "ssp"])
def test_a_timing_with_fewer_tensors_takes_as_long(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = counted(load_workload("chars-gpt", {"context": 8, "layers": 12, "width": 64, "samples": 64}), 16).shape
    whole = true_timing(scenario(GPT), Candidate(system, 2), shape)
    monkeypatch.setattr("polyrhythm.tools.planner.proxy.true_timing._LARGEST", shape.layout.numel / 2)
    some = true_timing(scenario(GPT), Candidate(system, 2), shape)
    assert (whole.cut, some.cut > 3) == (1.0, True)
    assert some.at(5000)[0] == pytest.approx(whole.at(5000)[0], rel=0.1)
    assert some.at(5000)[1] == pytest.approx(whole.at(5000)[1], rel=0.1)


def test_a_timing_goes_on_at_its_later_pace() -> None:
    whole = scenario(GPT)
    found = true_timing(whole, Candidate("sparknet", 2), counted(GPT, 16).shape)
    seconds, nbytes = found.pace
    further = 1000 * float(found.samples[-1] - found.samples[found.settled])
    assert found.at(1e5 + further)[0] == pytest.approx(found.at(1e5)[0] + further * seconds)
    assert found.at(1e5 + further)[1] == pytest.approx(found.at(1e5)[1] + further * nbytes)


@pytest.mark.parametrize("system", ["diloco", "sparknet", "allreduce", "post-local-sgd"])
def test_beyond_a_timing_exchanges_come_when_they_are_due(system: str) -> None:
    shape, candidate, on = counted(GPT, 16).shape, Candidate(system, 2), scenario(GPT)
    found = true_timing(on, candidate, shape)
    longer = time_shape(shape, workers=2, strategy=candidate.strategy, steps=240, on=on.on(0))
    ends: dict[int, float] = {}
    for event in longer.outcome.events:
        if isinstance(event, Stepped):
            ends[event.clock] = max(event.time, ends.get(event.clock, 0.0))
    last = int(found.samples[-1]) // (2 * shape.samples)
    for step in range(last + 1, 241):
        assert found.at(step * 2 * shape.samples)[0] == pytest.approx(ends[step], rel=0.03), step


@pytest.mark.parametrize(
    "candidate", [Candidate("dgc", 2), Candidate("post-local-sgd", 2, (("synchronous", 40),))], ids=lambda each: each.name
)
def test_the_later_pace_is_that_after_a_warm_up_whatever_its_option_is_called(candidate: Candidate) -> None:
    shape = counted(GPT, 16).shape
    run = time_shape(shape, workers=2, strategy=candidate.strategy, steps=104, on=scenario(GPT).on(0))
    sent = {event.clock: event.bytes_sent for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"}
    assert true_timing(scenario(GPT), candidate, shape).pace[1] == pytest.approx((sent[104] - sent[56]) / (48 * 2 * shape.samples), rel=0.1)
