"""How good the result was, and when, for every system and in both runtimes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds import fewest
from torch import Tensor, nn
from torch.nn import functional as F
from toy import SLOW, data, network

from polyrhythm import systems
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.snapshots import index_at, moment
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy, snapshots
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, DivergedError, WorkloadError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash

from .evaluations import evaluations, fickle, score, trains
from .scenes import EVERY_SYSTEM, go

each_system = pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))


@each_system
def test_evaluations_are_at_the_moments_of_the_grid_and_at_the_end(system: str) -> None:
    outcome = run(trains(), workers=3, strategy=system, on=Simulator(network=SLOW), seed=2)
    *during, last = evaluations(outcome)
    assert all(event.time == moment(index_at(event.time)) for event in during)
    assert all(event.since < event.time for event in (*during, last))
    assert last.time == pytest.approx(outcome.outcome.time, rel=0.05, abs=0.021)  # others may end a latency later
    assert outcome.final == last.metrics
    model = network()
    model.load_state_dict(outcome.weights)
    assert score(model)["loss"] == pytest.approx(last.metrics["loss"], rel=1e-5)


def test_the_result_at_a_moment_is_that_of_the_step_before_it() -> None:
    """Steps of a second, without a network: moment and step determine the weights."""
    on = Simulator(network=SLOW, devices=Profile("second", (1.0,)))
    outcome = run(trains(report=True), workers=1, strategy="single", on=on, seed=2)
    reported = {event.clock: event.metrics["loss"] for event in outcome.outcome.events if type(event).__name__ == "Reported"}
    seen = [event for event in evaluations(outcome) if event.time > 1.0]
    assert len(seen) > 10
    for event in seen:
        assert event.clock == int(event.time)
        assert event.metrics["loss"] == pytest.approx(reported[event.clock], rel=1e-6)


@pytest.mark.parametrize("runtime", [Simulator(network=SLOW), Processes()], ids=["virtual", "processes"])
def test_own_metrics_are_those_of_the_workers_weights_and_leave_no_trace(runtime: Runtime) -> None:
    def train(worker: Any, looks: bool) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        assert worker.own_metrics() == {}
        worker.evaluate(lambda found: {"norm": found[0].weight.norm(), "training": float(found.training)})
        for _ in range(6):
            worker.count(8)
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if looks:
                own = worker.own_metrics()
                assert own["norm"] == model[0].weight.norm()
                assert own["training"] == 0.0
                assert model.training

    made = [run(lambda worker, looks=looks: train(worker, looks), workers=2, on=runtime) for looks in (True, False)]  # type: ignore[misc]
    looked, plain = made
    assert all(torch.equal(looked.weights[name], plain.weights[name]) for name in plain.weights)
    if isinstance(runtime, Simulator):
        assert evaluations(looked) == evaluations(plain)


@pytest.mark.parametrize("system", ["sparknet", "easgd", "gossipgrad", "diloco"])
def test_it_is_the_result_that_is_evaluated_and_not_the_replica_of_worker_0(system: str) -> None:
    """At a moment between two rounds the servers, or the mean, are what counts."""
    found: dict[str, list[Tensor]] = {"seen": []}

    def spy(model: nn.Module) -> dict[str, float]:
        found["seen"].append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
        return score(model)

    strategy = systems.find(system, **({"period": 4} if system != "gossipgrad" else {}))
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
@pytest.mark.parametrize("system", ["easgd", "strom", systems.find("downpour", outer_learning_rate=0.02), "softsync"], ids=str)
def test_a_lost_worker_holds_no_evaluation_up(system: str | Strategy, moment_of_crash: float) -> None:
    on = Simulator(network=SLOW, faults=(Crash("worker/2", at=moment_of_crash),))
    assert evaluations(run(trains(), workers=4, strategy=system, on=on, seed=2))[-1].metrics["loss"] < 3.0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad", "ssp"])
def test_weights_that_are_larger_than_the_room_are_evaluated_at_the_end_alone(
    system: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their buffers are not, and can be evaluated at moments; of the weights there is nothing but the final ones."""
    monkeypatch.setattr(snapshots, "_BUDGET", 500)
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
    ("function", "error", "message"),
    [
        (lambda model: 0.9, WorkloadError, r"returned 0.9: return metrics by name"),
        (lambda model: {}, WorkloadError, r"returned \{\}: return metrics by name"),
        (
            lambda model: {"loss": "x"},
            WorkloadError,
            r"worker.evaluate returned loss = 'x', which is not a single number: give a float or a",
        ),
        (lambda model: {"loss": float("nan")}, DivergedError, r"loss was nan at .* s of the run: the training diverged"),
        ("accuracy", WorkloadError, r"worker.evaluate got 'accuracy', which is not callable"),
    ],
)
def test_what_is_no_evaluation_is_refused(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        go(trains(function))


@pytest.mark.parametrize("on", [Simulator(network=SLOW), Processes()], ids=["simulator", "processes"])
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad", "ssp"])
@pytest.mark.parametrize("rank", [0, 1])
def test_all_workers_request_evaluations_or_none_does(rank: int, system: str, on: Runtime) -> None:
    def train(worker: Any) -> None:
        trains(score if worker.rank == rank else None)(worker)

    with pytest.raises(CompositionError) as caught:
        run(train, workers=2, strategy=system, on=on)
    has, lacks = (f"worker/{rank} has evaluations to make", f"worker/{1 - rank} has no evaluations")
    message = f"{', '.join(sorted((has, lacks)))}: call worker.evaluate at every worker, not at worker 0 alone, which makes them when the "
    assert str(caught.value) == message + "training is over."


@pytest.mark.parametrize("on", [Simulator(network=SLOW), Processes()], ids=["simulator", "processes"])
def test_a_worker_without_steps_must_request_the_same_evaluations(on: Runtime) -> None:
    def train(worker: Any) -> None:
        trains(score if worker.rank == 0 else None, epochs=1 - worker.rank)(worker)

    with pytest.raises(
        CompositionError, match=r"worker/0 has evaluations to make, worker/1 has no evaluations: call worker.evaluate at every"
    ):
        run(train, workers=2, strategy="ssp", on=on)


def test_evaluating_is_requested_before_training_and_once() -> None:
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
