"""What was made slow on purpose is what a diagnosis names first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import polyrhythm as pr
from polyrhythm.core.kernel.events import Carried, Computed, Merged, Stepped, Waited
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.fleet import Fleet, Straggler
from polyrhythm.hardware.network import Access, Network
from polyrhythm.tools.report.critical_path import critical_path
from polyrhythm.tools.report.diagnosis import diagnose
from polyrhythm.tools.report.step_times import StepTimes

STEP = 0.02
LAN = Network.uniform("lan", "1 Gbit/s", "0.1 ms")


def train(worker: pr.Worker, width: int = 200, layers: int = 1, steps: int = 60) -> None:
    torch.manual_seed(0)
    model: Any = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, width)).square().mean().backward()
        worker.count(1)
        optimizer.step()


@dataclass(frozen=True)
class SlowerSince:
    """One worker's steps take longer from the one of that number on."""

    worker: int
    step: int
    factor: float

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        if rank != self.worker:
            return 1.0
        self.taken.append(1)
        return self.factor if len(self.taken) > self.step else 1.0

    def always(self, rank: int) -> float:
        return 1.0

    @property
    def taken(self) -> list[int]:
        return _TAKEN.setdefault(id(self), [])


_TAKEN: dict[int, list[int]] = {}


def fleet(*paces: Any, seconds: float = STEP, merging: float = 0.0) -> Fleet:
    measured = Profile("measured", (seconds,), merging)
    return Fleet((measured,), paces, measured)


def _one_slow_line(host: int) -> Network:
    return replace(LAN, accesses=((host, Access(2e6, 2e6)),))


@dataclass(frozen=True)
class Injected:
    """A run with something wrong, and what should be named."""

    name: str
    kind: str
    where: str
    system: str
    on: Callable[[], pr.Simulator]
    settings: tuple[tuple[str, Any], ...] = ()


INJECTED = [
    Injected("slow worker", "slow worker", "worker/2", "allreduce", lambda: pr.Simulator(LAN, fleet(Straggler(2, 3.0)))),
    Injected("slow worker at a server", "slow worker", "worker/1", "ssp", lambda: pr.Simulator(LAN, fleet(Straggler(1, 3.0)))),
    Injected("slow line", "slow link", "the line of worker/3", "direct", lambda: pr.Simulator(_one_slow_line(3), fleet())),
    Injected("slow line in a ring", "slow link", "the line of worker/1", "allreduce", lambda: pr.Simulator(_one_slow_line(1), fleet())),
    Injected("busy server", "busy server", "server/0", "ssp", lambda: pr.Simulator(LAN, fleet(merging=0.03))),
    Injected("lost core", "slower since", "worker/0", "allreduce", lambda: pr.Simulator(LAN, fleet(SlowerSince(0, 25, 2.5)))),
    Injected(
        "lost core on a narrow network", "slower since", "worker/0", "allreduce",
        lambda: pr.Simulator(Network.uniform("n", "90 Mbit/s", "0.1 ms"), fleet(SlowerSince(0, 25, 2.5))),
    ),
    Injected("lost worker", "lost worker", "worker/3", "adpsgd", lambda: pr.Simulator(LAN, fleet(), faults=(Crash("worker/3", 0.5),))),
    Injected(
        "small buckets", "latency", "all links", "horovod",
        lambda: pr.Simulator(Network.uniform("far", "1 Gbit/s", "10 ms"), fleet()), (("layers", 8), ("width", 32)),
    ),
    Injected("narrow", "bandwidth", "all links", "allreduce", lambda: pr.Simulator(Network.uniform("n", "20 Mbit/s", "0.1 ms"), fleet())),
    Injected("far away", "latency", "all links", "allreduce", lambda: pr.Simulator(Network.uniform("f", "1 Gbit/s", "40 ms"), fleet())),
]  # fmt: skip


MENDED: dict[str, Callable[[], pr.Simulator]] = {
    "busy server": lambda: pr.Simulator(LAN, fleet(merging=0.015)),
    "lost core on a narrow network": lambda: pr.Simulator(Network.uniform("n", "90 Mbit/s", "0.1 ms"), fleet()),
    "small buckets": lambda: pr.Simulator(Network.uniform("far", "1 Gbit/s", "1 ms"), fleet()),
    "narrow": lambda: pr.Simulator(Network.uniform("n", "200 Mbit/s", "0.1 ms"), fleet()),
    "far away": lambda: pr.Simulator(Network.uniform("f", "1 Gbit/s", "4 ms"), fleet()),
}
"""The same runs without what was made slow, as docs/diagnosing.md says what a prediction assumes; the others run on `LAN`."""


def made(case: Injected, on: pr.Simulator, timeline: bool) -> Outcome:
    return pr.run(lambda worker: train(worker, **dict(case.settings)), workers=4, strategy=case.system, on=on, timeline=timeline).outcome


@pytest.mark.parametrize("case", INJECTED, ids=lambda case: case.name)
def test_what_was_made_slow_is_named_first_and_without_it_the_time_is_as_predicted(case: Injected) -> None:
    mended = made(case, MENDED.get(case.name, lambda: pr.Simulator(LAN, fleet()))(), False)
    for timeline in (True, False):
        slow = made(case, case.on(), timeline)
        found = diagnose(slow)
        assert found.causes, found.path
        cause = found.causes[0]
        assert (cause.kind, cause.where) == (case.kind, case.where), found.causes
        factor = (mended.time / mended.summary.samples) / (slow.time / slow.summary.samples)
        assert cause.low <= factor <= cause.high, (cause, factor)
        if cause.low < (1 - cause.gain) / 1.31:  # what is not known has a wide interval, and otherwise it is narrow
            assert not timeline or cause.kind == "busy server"


def test_a_run_that_only_computes_has_no_cause() -> None:
    run = pr.run(train, workers=4, strategy="allreduce", on=pr.Simulator(LAN, fleet(seconds=1.0)))
    assert diagnose(run.outcome).causes == []


def test_removing_a_slow_worker_gains_about_what_is_predicted() -> None:
    slow = pr.run(train, workers=4, strategy="allreduce", on=pr.Simulator(LAN, fleet(Straggler(2, 3.0))))
    usual = pr.run(train, workers=4, strategy="allreduce", on=pr.Simulator(LAN, fleet()))
    cause = diagnose(slow.outcome).causes[0]
    assert slow.outcome.time * (1 - cause.gain) == pytest.approx(usual.outcome.time, rel=0.1)


def test_bytes_that_were_sent_again_are_named_with_their_connection() -> None:
    events = [Computed(0.1, "worker/0", 0.1), Waited(1.0, "worker/0", 0.9), Stepped(1.0, "worker/0", 1, 1, 1000)]
    events += [
        Carried(1.0, "worker/0", "worker/1", 10**6, 10, 0.8, 1e-3, 30_000),
        Carried(1.0, "worker/1", "worker/0", 10**6, 10, 0.8, 1e-3),
    ]
    found = diagnose(Outcome(Summary("allreduce", 2, "processes", None, 0, steps=1, bytes_sent=2 * 10**6), events))
    assert [(cause.kind, cause.where) for cause in found.causes if cause.kind == "loss"] == [("loss", "worker/0 to worker/1")]


def test_what_is_under_way_while_a_server_merges_does_not_wait_for_bandwidth() -> None:
    steps = range(1, 11)
    events = [Computed(step - 0.8, "worker/0", 0.2) for step in steps] + [Waited(step, "worker/0", 0.8) for step in steps]
    events += [Stepped(step, "worker/0", step, step, 1000) for step in steps]
    events += [Merged(step - 0.05, "server/0", step, [0], 0.7) for step in steps]
    events += [Carried(10.0, "worker/0", "server/0", 10**6, 10, 9.0, 1e-3)]
    found = diagnose(Outcome(Summary("ssp", 2, "processes", None, 0, steps=10, bytes_sent=10**6), events))
    assert [(cause.kind, cause.where) for cause in found.causes] == [("busy server", "server/0")]


@pytest.mark.parametrize("slower_from", [16, 30, 44])
def test_the_step_from_which_a_worker_is_slower_is_found(slower_from: int) -> None:
    draw, events = np.random.default_rng(0), []
    for name, slow in (("worker/0", 0.09), ("worker/1", 0.03)):
        now = 0.0
        for step in range(60):
            seconds = (slow if step >= slower_from else 0.03) * draw.uniform(0.9, 1.2)
            now += seconds
            events += [Computed(now, name, seconds), Stepped(now, name, step + 1, step + 1, 0)]
    change = StepTimes(events).changes()["worker/0"]
    began = [event.time for event in events if isinstance(event, Stepped)][slower_from - 1]
    assert change.since == pytest.approx(began, abs=0.4)
    assert change.factor == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("slower_from", [30, 48, 60])
def test_a_worker_that_slows_down_is_named_though_the_short_steps_of_the_other_vary(slower_from: int) -> None:
    events: list[Any] = []
    for name, early, late in (("worker/0", 0.5e-3, 0.8e-3), ("worker/1", 0.6e-3, 21e-3)):
        now = 0.0
        for step in range(96):
            seconds = late if step >= slower_from else early
            now += seconds
            events += [Computed(now, name, seconds), Stepped(now, name, step + 1, step + 1, 0)]
    assert list(StepTimes(events).changes()) == ["worker/1"]


def test_all_that_slow_down_alike_have_not_lost_a_core() -> None:
    events = [
        event
        for name in ("worker/0", "worker/1")
        for step in range(60)
        for event in (Computed(step, name, 0.1 + 0.2 * (step > 30)), Stepped(step, name, step + 1, step + 1, 0))
    ]
    assert StepTimes(events).changes() == {}


def test_what_the_record_does_not_show_is_reported() -> None:
    events = [Computed(0.1, "worker/0", 0.1), Waited(1.0, "worker/0", 0.9), Stepped(1.0, "worker/0", 1, 1, 1000)]
    failed = Summary("allreduce", 2, "simulator", "slow", 3, steps=1, bytes_sent=10**6, error="worker/1 crashed.")
    found = diagnose(Outcome(failed, events, state="failed"))
    assert (found.network, found.workers, found.seed) == ("slow", 2, 3)
    assert found.remarks == ["The run failed: worker/1 crashed."]
    assert "how much of that is latency is not known" in found.causes[0].finding


@pytest.mark.parametrize("system", ["allreduce", "ssp", "adpsgd", "sparknet", "horovod"])
@given(straggler=st.floats(1.0, 4.0), latency=st.floats(1e-4, 0.05))
@settings(max_examples=5, deadline=None)
def test_a_critical_path_is_as_long_as_the_run_and_has_no_gap(system: str, straggler: float, latency: float) -> None:
    on = pr.Simulator(Network.uniform("n", "100 Mbit/s", latency), fleet(Straggler(1, straggler)))
    for timeline in (True, False):
        run = pr.run(lambda worker: train(worker, steps=12), workers=3, strategy=system, on=on, timeline=timeline)
        path = critical_path(run.outcome.events)
        assert path[0].begin == pytest.approx(0.0, abs=1e-6)
        assert all(one.end == pytest.approx(other.begin, abs=1e-6) for one, other in pairwise(path))
        assert path[-1].end == max(event.time for event in run.outcome.events if isinstance(event, Stepped))


def test_a_path_goes_on_before_a_moment_of_which_nothing_is_recorded() -> None:
    spans = [Computed(step + 0.8, "worker/0", 0.8) for step in range(5)]
    path = critical_path([*spans, Stepped(5.0, "worker/0", 5, 40, 0)])
    assert [part.what for part in path] == ["computing", "waiting"] * 5
    assert sum(part.seconds for part in path if part.what == "computing") == pytest.approx(4.0)
