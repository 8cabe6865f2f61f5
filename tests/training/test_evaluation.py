"""How good the result was, and when, for every system and in both runtimes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import SLOW, data, network

from polyrhythm import systems
from polyrhythm.buffers import OwnBuffers
from polyrhythm.errors import CompositionError, DivergedError, WorkloadError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Crash
from polyrhythm.kernel.events import Evaluated, Stepped
from polyrhythm.kernel.job import Runtime
from polyrhythm.pieces.album import index_at, moment
from polyrhythm.processes import Processes
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy, albums
from polyrhythm.training import evaluation
from polyrhythm.training.result import Run
from polyrhythm.training.run import run

from .scenes import EVERY_SYSTEM, go

each_system = pytest.mark.parametrize("system", EVERY_SYSTEM)


def score(model: nn.Module) -> dict[str, float]:
    x, y = data()
    return {"loss": F.cross_entropy(model(x), y).item()}


def fickle() -> nn.Module:
    """A model with statistics that change in training, one that is frozen, a counter, and a layer that draws random numbers."""
    return nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Dropout(0.2), nn.Linear(12, 3), nn.BatchNorm1d(3, affine=False).eval())


def trains(
    function: Callable[..., Any] | None = score, epochs: int = 4, report: bool = False, build: Callable[[], nn.Module] = network
) -> Callable[[Any], None]:
    """The usual loop; `function` evaluates its result."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        if function is not None:
            worker.evaluate(function)
        for _ in range(epochs):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if report:
                    worker.report(loss=score(model)["loss"])

    return train


def evaluations(outcome: Run) -> list[Evaluated]:
    return [event for event in outcome.outcome.events if isinstance(event, Evaluated)]


def careless(model: nn.Module) -> dict[str, float]:
    """Leaves every trace that an evaluation can leave: statistics, a mode, numbers drawn, a buffer in another's place."""
    model.train()
    loss = score(model)["loss"] + 0 * (random.random() + np.random.rand())
    model[1].running_mean = torch.zeros(12)  # type: ignore[union-attr,operator,index]
    return {"loss": loss}


@each_system
def test_evaluating_costs_no_time_and_no_bytes_and_changes_nothing(system: str) -> None:
    """No weight, no buffer, no module's mode, and no number that is drawn afterwards."""
    on = Simulator(network=SLOW, devices=Device("slow", 1e7, 0.01))
    left: dict[object, list[Any]] = {None: [], careless: []}

    def train(worker: Any, function: Any) -> None:
        model = fickle()
        trains(function, build=lambda: model)(worker)
        worker.finish()
        drawn = [torch.rand(1).item(), float(np.random.rand()), random.random()]
        left[function].append((worker.rank, drawn, [module.training for module in model.modules()]))

    plain, evaluated = (
        run(lambda worker, function=function: train(worker, function), workers=3, strategy=system, on=on, seed=2) for function in left
    )
    for name in ("virtual_seconds", "bytes_sent", "messages_sent", "weights_sha256", "steps"):
        assert getattr(plain.summary, name) == getattr(evaluated.summary, name)
    assert sorted(left[None]) == sorted(left[careless])
    assert len(evaluations(evaluated)) > 1
    assert evaluated.weights["1.num_batches_tracked"] > 0


@pytest.mark.parametrize("system", ["allreduce", "gossipgrad"])
def test_a_result_is_evaluated_in_evaluation_mode_and_by_itself(system: str) -> None:
    """Not as a batch that is normalized by its own statistics, and not after what an evaluation before it has left."""
    on = Simulator(network=SLOW)
    modest, bold = (
        run(trains(function, build=fickle), workers=2, strategy=system, on=on, seed=2)
        for function in (score, lambda model: score(model) | {"careless": careless(model)["loss"]})
    )
    assert [event.metrics["loss"] for event in evaluations(modest)] == [event.metrics["loss"] for event in evaluations(bold)]
    model = fickle()
    model.load_state_dict(modest.weights)
    assert modest.final["loss"] == pytest.approx(score(model.eval())["loss"], rel=1e-6)


def test_an_evaluation_that_fails_leaves_the_final_weights() -> None:
    models: dict[int, nn.Module] = {}
    calls: list[int] = []

    def third(model: nn.Module) -> dict[str, float]:
        calls.append(0)
        if len(calls) == 3:
            raise KeyError("no such label")
        return score(model)

    def train(worker: Any) -> None:
        trains(third, build=lambda: models.setdefault(worker.rank, fickle()))(worker)
        with pytest.raises(KeyError):
            worker.finish()

    on = Simulator(network=SLOW)
    run(train, workers=1, strategy="single", on=on, seed=2)
    plain = run(trains(None, build=fickle), workers=1, strategy="single", on=on, seed=2)
    assert all(torch.equal(value, plain.weights[name]) for name, value in models[0].state_dict().items())


@each_system
def test_evaluations_are_at_the_moments_of_the_grid_and_at_the_end(system: str) -> None:
    outcome = run(trains(), workers=3, strategy=system, on=Simulator(network=SLOW), seed=2)
    *during, last = evaluations(outcome)
    assert all(event.time == moment(index_at(event.time)) for event in during)
    assert all(event.since < event.time for event in (*during, last))
    assert last.time == pytest.approx(outcome.outcome.time, rel=0.05)  # others may end a little later
    assert outcome.final == last.metrics
    model = network()
    model.load_state_dict(outcome.weights)
    assert score(model)["loss"] == pytest.approx(last.metrics["loss"], rel=1e-5)


def test_the_result_at_a_moment_is_that_of_the_step_before_it() -> None:
    """Steps of a second, without a network: moment and step tell which weights were there."""
    on = Simulator(network=SLOW, devices=Profile("second", (1.0,)))
    outcome = run(trains(report=True), workers=1, strategy="single", on=on, seed=2)
    told = {event.clock: event.metrics["loss"] for event in outcome.outcome.events if type(event).__name__ == "Reported"}
    seen = [event for event in evaluations(outcome) if event.time > 1.0]
    assert len(seen) > 10
    for event in seen:
        assert event.clock == int(event.time)
        assert event.metrics["loss"] == pytest.approx(told[event.clock], rel=1e-6)


@pytest.mark.parametrize("system", ["sparknet", "easgd", "gossipgrad", "diloco"])
def test_it_is_the_result_that_is_evaluated_and_not_the_replica_of_worker_0(system: str) -> None:
    """At a moment between two rounds the servers, or the mean, are what counts."""
    found: dict[str, list[Tensor]] = {"seen": []}

    def spy(model: nn.Module) -> dict[str, float]:
        found["seen"].append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
        return score(model)

    strategy = systems.find(system, **({"tau": 4} if system != "gossipgrad" else {}))
    on = Simulator(network=SLOW, devices=Profile("second", (1.0,)))
    run(trains(spy), workers=2, strategy=strategy, on=on, seed=2)
    changes = sum(not torch.equal(a, b) for a, b in zip(found["seen"], found["seen"][1:], strict=False))
    steps = 24
    assert changes <= (steps // 4 + 1 if system != "gossipgrad" else 2 * steps)


@pytest.mark.parametrize("system", ["allreduce", "ssp", "easgd", "gossipgrad", "strom", "diloco"])
def test_real_processes_are_evaluated_too(system: str) -> None:
    outcome = run(trains(epochs=20), workers=2, strategy=system, on=Processes(), seed=2)
    found = evaluations(outcome)
    assert len(found) > 3
    assert [event.time for event in found] == sorted(event.time for event in found)
    assert found[-1].metrics["loss"] < found[0].metrics["loss"]
    assert 0 < found[-1].bytes_sent <= outcome.summary.bytes_sent
    assert outcome.final == found[-1].metrics


@pytest.mark.parametrize("moment_of_crash", [0.01, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("system", ["easgd", "strom", systems.find("downpour", learning_rate=0.02), "softsync"], ids=str)
def test_a_lost_worker_holds_no_evaluation_up(system: str | Strategy, moment_of_crash: float) -> None:
    on = Simulator(network=SLOW, faults=(Crash("worker/2", at=moment_of_crash),))
    assert evaluations(run(trains(), workers=4, strategy=system, on=on, seed=2))[-1].metrics["loss"] < 3.0


def tracks(seen: dict[int, list[tuple[float, float]]]) -> Callable[[Any], None]:
    """Notes by rank when a step began, at the end of the one before it, and what statistics its forward pass has left."""

    def train(worker: Any) -> None:
        model = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 3))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        worker.evaluate(lambda model: {"tracked": model[1].running_var.mean().item()})
        noted, began = seen.setdefault(worker.rank, [(-1.0, 1.0)]), worker._stage.port.now()
        for _ in range(2):
            for x, y in worker.batches(data(), batch_size=4):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(10 * x), y)
                noted.append((began, model[1].running_var.mean().item()))
                loss.backward()
                optimizer.step()
                began = worker._stage.port.now()

    return train


@pytest.mark.parametrize("seconds", [1.0, 0.001], ids=["computing", "exchanging"])
@pytest.mark.parametrize("system", ["allreduce", "sparknet", "gossipgrad", "easgd", "ssp"])
def test_buffers_are_those_of_the_step_that_was_under_way(system: str, seconds: float) -> None:
    """Whether most of the time passes in computing or in exchanging."""
    seen: dict[int, list[tuple[float, float]]] = {}
    on = Simulator(network=SLOW, devices=Profile("steady", (seconds,)))
    *during, _ = evaluations(run(tracks(seen), workers=3, strategy=system, on=on, seed=2))
    assert len(during) > 8
    for event in during:
        latest = [[value for began, value in noted if began < event.time][-1] for noted in seen.values()]
        assert event.metrics["tracked"] == pytest.approx(sum(latest) / 3, rel=1e-5)


def test_of_buffers_that_each_keeps_those_of_worker_0_are_the_results() -> None:
    seen: dict[int, list[tuple[float, float]]] = {}
    on = Simulator(network=SLOW, devices=Profile("second", (1.0,)))
    for event in evaluations(run(tracks(seen), workers=3, strategy=Strategy(buffers=OwnBuffers()), on=on, seed=2)):
        latest = [value for began, value in seen[0] if began < event.time][-1]
        assert event.metrics["tracked"] == pytest.approx(latest, rel=1e-6)


def test_buffers_are_copied_when_a_moment_has_passed_and_not_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    flatten = evaluation._flat
    monkeypatch.setattr(evaluation, "_flat", lambda buffers: (copies.append(0), flatten(buffers))[1])
    monkeypatch.setattr(evaluation.Evaluation, "finish", lambda self: {})
    on = Simulator(network=SLOW, devices=Profile("quick", (1e-4,)))
    outcome = run(trains(epochs=10, build=fickle), workers=1, strategy="single", on=on)
    assert outcome.summary.steps == 120
    assert 10 < len(copies) <= index_at(outcome.outcome.time) + 1 < 40


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad", "ssp"])
def test_weights_that_are_larger_than_the_room_are_evaluated_at_the_end_alone(
    system: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their buffers are not, and can tell of moments; of the weights there is nothing but the final ones."""
    monkeypatch.setattr(albums, "_BUDGET", 500)
    outcome = run(trains(build=fickle), workers=workers, strategy=system, on=Simulator(network=SLOW), seed=2)
    (only,) = evaluations(outcome)
    assert only.since == 0.0
    assert only.metrics == outcome.final


def test_two_models_are_evaluated_together() -> None:
    def train(worker: Any) -> None:
        models = [network(), network()]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        worker.evaluate(lambda one, other: {"one": score(one)["loss"], "other": score(other)["loss"]})
        for model, optimizer in zip(models, optimizers, strict=True):
            worker.attach(model, optimizer)
        for x, y in worker.batches(data(), batch_size=8):
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    for system in ("allreduce", "ssp", "gossipgrad"):
        assert set(go(train, system).final) == {"one", "other"}


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        (lambda model: 0.9, WorkloadError, r"returned 0.9: return metrics by name"),
        (lambda model: {}, WorkloadError, r"returned \{\}: return metrics by name"),
        (lambda model: {"loss": "x"}, WorkloadError, r"worker.evaluate returned loss = 'x', which is not one number: give a float or a"),
        (lambda model: {"loss": float("nan")}, DivergedError, r"loss was nan at .* s of the run: the training diverged"),
        ("accuracy", WorkloadError, r"worker.evaluate got 'accuracy', which cannot be called"),
    ],
)
def test_what_is_no_evaluation_is_refused(function: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        go(trains(function))


@pytest.mark.parametrize("on", [Simulator(network=SLOW), Processes()], ids=["simulator", "processes"])
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad", "ssp"])
@pytest.mark.parametrize("rank", [0, 1])
def test_all_workers_ask_for_evaluations_or_none_does(rank: int, system: str, on: Runtime) -> None:
    def train(worker: Any) -> None:
        trains(score if worker.rank == rank else None)(worker)

    with pytest.raises(CompositionError) as caught:
        run(train, workers=2, strategy=system, on=on)
    has, lacks = (f"worker/{rank} has evaluations to make", f"worker/{1 - rank} has no evaluations")
    said = f"{', '.join(sorted((has, lacks)))}: call worker.evaluate at every worker, not at worker 0 alone, which makes them when the "
    assert str(caught.value) == said + "training is over."


@pytest.mark.parametrize("on", [Simulator(network=SLOW), Processes()], ids=["simulator", "processes"])
def test_who_takes_no_step_is_asked_whether_it_evaluates_too(on: Runtime) -> None:
    def train(worker: Any) -> None:
        trains(score if worker.rank == 0 else None, epochs=1 - worker.rank)(worker)

    with pytest.raises(
        CompositionError, match=r"worker/0 has evaluations to make, worker/1 has no evaluations: call worker.evaluate at every"
    ):
        run(train, workers=2, strategy="ssp", on=on)


def test_evaluating_is_asked_for_before_training_and_once() -> None:
    def late(worker: Any) -> None:
        trains(None, epochs=1)(worker)
        worker.evaluate(score)

    def twice(worker: Any) -> None:
        worker.evaluate(score)
        worker.evaluate(score)

    with pytest.raises(WorkloadError, match="after the first step: call it before training begins"):
        go(late)
    with pytest.raises(WorkloadError, match="called twice: give one function that returns all metrics"):
        go(twice)


def test_steps_are_counted_at_the_moments() -> None:
    outcome = go(trains(), "allreduce", 2)
    steps = [event for event in outcome.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]
    assert evaluations(outcome)[-1].clock == steps[-1].clock
