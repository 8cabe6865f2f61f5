"""Whole batches in whole runs: the result is that of `torch.optim.LBFGS` in one process, and of scipy, whoever computes what."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from kinds import sampled
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import Evaluated, Stepped
from polyrhythm.errors import CheckpointError, PolyrhythmError
from polyrhythm.hardware.faults import Crash, Join, Leave

SAMPLES, STEPS = 150, 4
SEARCHES = [None, "strong_wolfe"]
SERVED = [name for name, preset in systems.SYSTEMS.items() if pr.topology.Server in map(type, [preset().exchange.topology])]
MEASURED = pr.hardware.Profile("measured", (1e-2,))


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 5, generator=draw, dtype=torch.float64)
    return x.to(dtype), (x.sum(dim=1).tanh() + 0.1 * torch.randn(SAMPLES, generator=draw, dtype=torch.float64)).to(dtype)


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def error(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: (model(x).squeeze(1) - y).square().mean()


def lbfgs(model: nn.Module, search: str | None = None) -> torch.optim.LBFGS:
    return torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=3, line_search_fn=search)


def alone(search: str | None = None, dtype: torch.dtype = torch.float64, steps: int = STEPS) -> dict[str, Tensor]:
    """What torch makes of it in one process."""
    model = network(dtype)
    optimizer = lbfgs(model, search)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = error(model)(*data(dtype))
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return model.state_dict()


class Train:
    """`steps` of L-BFGS; worker 1 is killed in the evaluation `killed`."""

    def __init__(self, search: str | None = None, dtype: torch.dtype = torch.float64, steps: int = STEPS, **options: Any) -> None:
        self.search, self.dtype, self.steps = search, dtype, steps
        self.killed = options.pop("killed", 0)
        self.options = {"portion": 7, **options}

    def __call__(self, worker: Any) -> None:
        model = network(self.dtype)
        optimizer = lbfgs(model, self.search)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            if worker.rank == 1 and self.killed and batch.evaluations == self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            return error(model)(x, y)

        batch = worker.whole_batch(model, optimizer, data(self.dtype), loss, **self.options)
        worker.evaluate(lambda model: {"loss": error(model)(*data(self.dtype))})
        for _ in worker.range(self.steps):
            worker.report(seen=optimizer.step(batch))


def furthest(run: pr.Run, other: dict[str, Tensor]) -> float:
    return max(float((run.weights[name] - value).abs().max()) for name, value in other.items())


def over(servers: int) -> pr.Strategy:
    return pr.Strategy(consistency=pr.consistency.Asynchronous(), topology=pr.topology.Server(servers))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("workers", "servers"), [(1, 1), (3, 2), (16, 3)])
def test_the_result_is_that_of_torch_in_one_process(workers: int, servers: int, search: str | None) -> None:
    run = pr.run(Train(search), workers=workers, strategy=over(servers), on=pr.Simulator(devices=MEASURED))
    assert furthest(run, alone(search)) < 1e-9
    evaluated = SAMPLES * max(1, run.summary.samples // SAMPLES)
    assert run.summary.samples == evaluated, "each sample counts once an evaluation, whoever computes it"


def test_float32_is_as_near_as_float32_allows() -> None:
    """Sums are of float64 at the servers, and rounded once; twelve iterations are as far apart as those of two orders of summation."""
    run = pr.run(Train("strong_wolfe", torch.float32), workers=4, strategy="sandblaster", on=pr.Simulator(devices=MEASURED))
    assert furthest(run, alone("strong_wolfe", torch.float32)) < 2e-4


@pytest.mark.parametrize("system", sampled(SERVED))
def test_every_system_with_servers_evaluates_whole_batches(system: str) -> None:
    run = pr.run(Train(steps=2), workers=3, strategy=system, on=pr.Simulator(devices=MEASURED))
    assert furthest(run, alone(steps=2)) < 1e-9


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.long)])
def test_real_processes_come_to_the_same_weights(workers: int) -> None:
    run = pr.run(Train("strong_wolfe", steps=2), workers=workers, strategy="sandblaster", on=pr.Processes())
    assert furthest(run, alone("strong_wolfe", steps=2)) < 1e-9


def test_the_minimum_is_that_of_scipy() -> None:
    x, y = data()
    hessian, linear = x.T @ x / SAMPLES + torch.eye(5), x.T @ y / SAMPLES

    def train(worker: Any) -> None:
        model = nn.Linear(5, 1, bias=False).double()
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=30, line_search_fn="strong_wolfe", tolerance_grad=1e-12, tolerance_change=1e-15
        )

        def loss(x: Tensor, y: Tensor) -> Tensor:
            return (model(x).squeeze(1) - y).square().mean() / 2 + model.weight.square().sum() / 2

        batch = worker.whole_batch(model, optimizer, TensorDataset(x, y), loss, portion=10)
        for _ in worker.range(2):
            optimizer.step(batch)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = hessian.numpy() @ w - linear.numpy()
        return float(w @ hessian.numpy() @ w / 2 - linear.numpy() @ w), gradient

    found = scipy.optimize.minimize(objective, np.zeros(5), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-12})
    run = pr.run(train, workers=3, strategy="sandblaster", on=pr.Simulator(devices=MEASURED))
    assert float(np.abs(run.weights["weight"].numpy()[0] - found.x).max()) < 1e-6


def seconds(copies: int, slow: float) -> float:
    fleet = pr.hardware.Fleet((MEASURED,), (pr.hardware.Mixed((*[1.0] * 7, 1 / slow)),))
    run = pr.run(Train(portion=4, copies=copies, steps=3), workers=8, strategy="sandblaster", on=pr.Simulator(devices=fleet))
    assert furthest(run, alone(steps=3)) < 1e-9
    return float(run.summary.virtual_seconds or 0.0)


def test_backups_make_up_for_a_slow_machine() -> None:
    assert seconds(2, slow=4.0) <= seconds(1, slow=4.0)
    assert seconds(2, slow=50.0) < 0.5 * seconds(1, slow=50.0)


@pytest.mark.parametrize("lost", [("worker/1",), ("worker/2", "worker/3")])
@pytest.mark.parametrize("at", [0.02, 0.1, 0.35])
def test_portions_of_lost_workers_are_dealt_again(lost: tuple[str, ...], at: float) -> None:
    faults = tuple(pr.hardware.Crash(name, at=at * (1 + 0.3 * k)) for k, name in enumerate(lost))
    run = pr.run(Train(), workers=4, strategy="sandblaster", on=pr.Simulator(devices=MEASURED, faults=faults))
    assert run.summary.lost == list(lost)
    assert furthest(run, alone()) < 1e-9


@pytest.mark.long
def test_a_killed_process_is_done_without() -> None:
    run = pr.run(Train(killed=4), workers=3, strategy="sandblaster", on=pr.Processes())
    assert run.summary.lost == ["worker/1"]
    assert furthest(run, alone()) < 1e-9


CHANGES = {
    "one is lost": (Crash("worker/2", at=0.05),),
    "the first is lost": (Crash("worker/0", at=0.1),),
    "two are lost at once, the first among them": (Crash("worker/0", at=0.03), Crash("worker/1", at=0.031)),
    "one joins": (Join(at=0.05),),
    "one leaves, others join": (Leave("worker/1", at=0.06), Join(at=0.1), Join(at=0.11)),
    "the first leaves, and the next is lost": (Leave("worker/0", at=0.06), Crash("worker/1", at=0.3)),
    "one joins, and then two are lost": (Join(at=0.05), Crash("worker/0", at=0.3), Crash("worker/2", at=0.31)),
}


QUICK = ("the first is lost", "one leaves, others join")


@pytest.mark.parametrize("change", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in CHANGES])
def test_sums_are_exact_while_the_crew_changes_in_the_middle_of_them(change: str) -> None:
    faults = CHANGES[change]
    on = pr.Simulator(devices=MEASURED, faults=faults)
    run = pr.run(Train("strong_wolfe"), workers=pr.Crew(1, 4), strategy="sandblaster", on=on)
    assert run.summary.lost == [each.actor for each in faults if isinstance(each, Crash)]
    assert run.summary.steps == STEPS
    assert furthest(run, alone("strong_wolfe")) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("at", [0.0005 + 0.0437 * k for k in range(20)])
def test_the_first_worker_may_be_lost_at_any_moment(at: float) -> None:
    faults = (Crash("worker/0", at=at), Join(at=0.6 * at), Crash("worker/1", at=1.01 * at))
    run = pr.run(Train(), workers=pr.Crew(1, 4), strategy=over(3), on=pr.Simulator(devices=MEASURED, faults=faults))
    assert run.summary.steps == STEPS
    assert furthest(run, alone()) < 1e-9


class KilledInSums(Train):
    """Whoever is of `rank` in the fourth evaluation is killed there, once; the run ends when its successor has taken a step."""

    def __init__(self, place: Path, rank: int) -> None:
        super().__init__("strong_wolfe", steps=400)
        self.place, self.rank = place, rank

    def __call__(self, worker: Any) -> None:
        successor = self.place.exists()
        model = network()
        optimizer = lbfgs(model, self.search)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            time.sleep(0.01)  # so that all compute some portions
            if worker.rank == self.rank and batch.evaluations == 4:
                with suppress(FileExistsError):
                    self.place.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
            return error(model)(x, y)

        batch = worker.whole_batch(model, optimizer, data(), loss, portion=7)
        for _ in worker.range(self.steps):
            optimizer.step(batch)
            if worker.any(successor):
                break


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_real_sums_are_exact_while_a_process_is_killed_and_another_joins(rank: int, tmp_path: Path) -> None:
    crew = pr.Crew(1, 3, replace=True)
    run = pr.run(KilledInSums(tmp_path / "killed", rank), workers=crew, strategy="sandblaster", on=pr.Processes(timeout=60.0))
    assert run.summary.lost == [f"worker/{rank}"]
    assert any(isinstance(event, Stepped) and event.actor == f"worker/{rank + 3}" for event in run.outcome.events)
    assert furthest(run, alone("strong_wolfe", steps=run.summary.steps)) < 1e-9


def test_a_closure_of_ones_own_may_add_to_the_loss_that_is_seen() -> None:
    def train(worker: Any) -> None:
        model = network()
        optimizer = lbfgs(model)
        batch = worker.whole_batch(model, optimizer, data(), error(model), portion=20)
        for _ in worker.range(2):
            worker.report(seen=optimizer.step(lambda: batch() + 100))

    run = pr.run(train, workers=2, strategy="sandblaster", on=pr.Simulator(devices=MEASURED))
    assert furthest(run, alone(steps=2)) < 1e-9
    assert run.final["seen"] > 100


def test_the_result_is_evaluated_at_moments_of_the_run() -> None:
    run = pr.run(Train(), workers=2, strategy="sandblaster", on=pr.Simulator(devices=MEASURED))
    losses = [event.metrics["loss"] for event in run.outcome.events if isinstance(event, Evaluated)]
    assert len(set(losses)) == STEPS + 1, "those of each step, and of the beginning; none from the midst of a line search"
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path, search: str | None) -> None:
    on = pr.Simulator(devices=MEASURED)
    whole = pr.run(Train(search), workers=2, strategy="sandblaster", on=on)
    pr.run(Train(search, steps=2), workers=2, strategy="sandblaster", on=on, checkpoints=pr.Checkpoints(tmp_path, every=1))
    resumed = pr.run(Train(search), workers=2, strategy="sandblaster", on=on, checkpoints=pr.Checkpoints(resume=tmp_path))
    assert furthest(resumed, dict(whole.weights)) < 1e-12
    with pytest.raises(CheckpointError, match="whole batch"):
        pr.run(Train(search, portion=50), workers=2, strategy="sandblaster", on=on, checkpoints=pr.Checkpoints(resume=tmp_path))


def refused(train: Callable[[Any], object], **options: Any) -> str:
    with pytest.raises(PolyrhythmError) as caught:
        pr.run(train, **{"workers": 2, "strategy": "sandblaster", "on": pr.Simulator(devices=MEASURED), **options})
    return str(caught.value)


def test_what_cannot_be_is_refused_with_a_remedy() -> None:
    assert "choose sandblaster" in refused(Train(), strategy="allreduce")
    assert "portion=0" in refused(Train(portion=0))
    assert "copies=0" in refused(Train(copies=0))


def made(change: Callable[[Any, nn.Module, Any], object]) -> Callable[[Any], None]:
    def train(worker: Any) -> None:
        model = network()
        change(worker, model, lambda: worker.whole_batch(model, lbfgs(model), data(), error(model), portion=20))

    return train


def groups(worker: Any, model: nn.Module, open_: Any) -> None:
    optimizer = torch.optim.SGD([{"params": [each]} for each in model.parameters()], lr=0.1)
    worker.whole_batch(model, optimizer, data(), error(model), portion=20)


def not_called(worker: Any, model: nn.Module, open_: Any) -> None:
    optimizer = lbfgs(model)
    worker.whole_batch(model, optimizer, data(), error(model), portion=20)
    optimizer.step(lambda: torch.tensor(1.0))


def no_loss(worker: Any, model: nn.Module, open_: Any) -> None:
    optimizer = lbfgs(model)
    batch = worker.whole_batch(model, optimizer, data(), lambda x, y: 3.0, portion=20)
    optimizer.step(batch)


def squares(worker: Any, model: nn.Module, open_: Any) -> None:
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    batch = worker.whole_batch(model, optimizer, data(), error(model), portion=20)
    optimizer.step(batch)


REFUSED: list[tuple[Callable[[Any, nn.Module, Any], object], str]] = [
    (lambda worker, model, open_: (open_(), open_()), "beside another model"),
    (lambda worker, model, open_: (open_(), worker.attach(model, torch.optim.SGD(model.parameters()))), "beside worker.whole_batch"),
    (lambda worker, model, open_: (worker.attach(model, torch.optim.SGD(model.parameters())), open_()), "beside another model"),
    (lambda worker, model, open_: worker.attach(model, lbfgs(model)), "worker.whole_batch under a system with servers"),
    (lambda worker, model, open_: open_()(), "called outside of it"),
    (groups, "groups of parameters"),
    (not_called, "returned 0 times"),
    (no_loss, "returned 3.0"),
    (squares, "which servers do not carry out"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_breaks_the_contract_is_a_sentence(change: Callable[[Any, nn.Module, Any], object], message: str) -> None:
    assert message in refused(made(change))


def test_other_data_are_refused() -> None:
    for wrong in ((), (torch.ones(2), torch.ones(3)), iter(range(3)), []):
        assert "worker.whole_batch was given" in refused(
            made(lambda worker, model, open_, wrong=wrong: worker.whole_batch(model, lbfgs(model), wrong, error(model), portion=2))
        )
