"""Gradients computed side by side: the same run as one by one, within rounding, and what cannot be computed so is computed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.errors import CompositionError, GradientsError

ROUNDING = 1e-5
SAMPLES = torch.randn(96, 10, generator=torch.Generator().manual_seed(0))
CLASSES = SAMPLES[:, :4].argmax(1)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 4))


class Attending(nn.Module):
    """Attention over ten numbers, each of which is a place."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(10, 8))
        self.score = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = (x.unsqueeze(-1) * self.places).unsqueeze(1)
        return self.score(F.scaled_dot_product_attention(y, y, y, is_causal=True).mean((1, 2)))


class Deciding(nn.Module):
    """A pass that depends on its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y if y.sum() > 0 else 2 * y


class CountingCalls(nn.Module):
    """A pass that writes to an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 4)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.layer(x) / self.calls
        return y


def training(make: Callable[[], nn.Module], step: Callable[..., None] | None = None) -> Callable[[Any], None]:
    """A training function of two epochs of such models; `step` makes the gradients of a batch."""

    def train(worker: Any) -> None:
        torch.manual_seed(worker.rank)
        model = make()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        for _ in worker.epochs(2):
            for x, y in worker.batches((SAMPLES, CLASSES), batch_size=8):
                optimizer.zero_grad()
                if step is None:
                    F.cross_entropy(model(x), y).backward()
                else:
                    step(worker, model, x, y)
                optimizer.step()

    return train


def ran(train: Callable[[Any], None], gradients: Any, system: str = "allreduce", network: str = "slow", workers: int = 4) -> pr.Run:
    on = pr.Simulator(network=network, devices=pr.hardware.Fleet(paces=(pr.hardware.Jitter(0.2),)), gradients=gradients)
    return pr.run(train, workers=workers, strategy=system, on=on, seed=5)


def same(train: Callable[[Any], None], *where: Any, threads: int = 1) -> str:
    """Hold a run side by side to be that one by one; returns what its record says."""
    one, other = (ran(train, gradients, *where) for gradients in (pr.OneByOne(), pr.SideBySide(threads=threads)))
    for name, weights in one.outcome.weights.items():
        torch.testing.assert_close(other.outcome.weights[name], weights, rtol=ROUNDING, atol=ROUNDING)
    for field in ("virtual_seconds", "bytes_sent", "messages_sent", "steps", "samples"):
        assert getattr(one.summary, field) == getattr(other.summary, field), field
    assert "gradients" not in one.outcome.settings
    return other.outcome.settings["gradients"]


QUICK = ("allreduce", "ssp", "easgd", "adpsgd", "horovod", "hogwild", "fedavg")


@pytest.mark.parametrize("system", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in systems.SYSTEMS])
def test_every_system_trains_the_same_side_by_side_as_one_by_one(system: str) -> None:
    assert same(training(small), system)


def test_workers_that_compute_at_the_same_time_are_computed_together() -> None:
    assert same(training(small)).startswith("23 passes side by side; 1 one by one, because the first of its kind is")


def test_the_number_of_threads_changes_no_bit() -> None:
    found = [ran(training(small), pr.SideBySide(threads=threads)).summary.weights_sha256 for threads in (1, 2, 3)]
    assert len(set(found)) == 1


def large() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 4000), nn.ReLU(), nn.Linear(4000, 100), nn.ReLU(), nn.Linear(100, 4))


@pytest.mark.parametrize("threads", [1, 2])
def test_models_that_are_not_stacked_have_the_same_bits(threads: int) -> None:
    one, other = (ran(training(large), gradients) for gradients in (pr.OneByOne(), pr.SideBySide(threads=threads)))
    assert one.summary.weights_sha256 == other.summary.weights_sha256
    assert "not stacked: it is large" in other.outcome.settings["gradients"]


NORMED = lambda: nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))  # noqa: E731 (one of a list)
DROPPING = lambda: nn.Sequential(nn.Linear(10, 8), nn.Dropout(0.2), nn.Linear(8, 4))  # noqa: E731
MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "attention": (Attending, "23 passes side by side"),
    "batch norm": (NORMED, "its forward pass writes to buffers"),
    "dropout": (DROPPING, "its forward pass draws random numbers"),
    "control flow": (Deciding, "not stacked: RuntimeError"),
    "attributes": (CountingCalls, "its forward pass changes its attributes"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_models_of_every_kind_are_right_and_the_record_says_which_are_computed_alone(kind: str) -> None:
    make, said = MODELS[kind]
    assert said in same(training(make), threads=2)


def two_passes(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    (F.cross_entropy(model(x[:4]), y[:4]) + F.cross_entropy(model(x[4:]), y[4:])).backward()


def accumulated(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    for part in range(2):
        F.cross_entropy(model(x[part::2]), y[part::2]).backward()


def by_grad(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(F.cross_entropy(model(x), y), parameters), strict=True):
        parameter.grad = gradient


def penalised(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    (F.cross_entropy(model(x), y) + 0.01 * sum(each.square().sum() for each in model.parameters())).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def asking(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    worker.mean(loss)


STEPS: dict[str, tuple[Callable[..., None], str]] = {
    "two passes": (two_passes, "several forward passes are made for a step"),
    "accumulated": (accumulated, "several forward passes are made for a step"),
    "autograd.grad": (by_grad, "torch.autograd.grad is called in its steps"),
    "penalty and clipping": (penalised, "23 passes side by side"),
    "communicating": (asking, "it communicates between a forward pass and its step"),
}


@pytest.mark.parametrize("kind", STEPS)
def test_steps_of_every_kind_are_right_and_the_record_says_which_are_computed_alone(kind: str) -> None:
    step, said = STEPS[kind]
    assert said in same(training(small, step))


FAULTS = {
    "stall": (pr.hardware.Stall("worker/1", at=0.02, duration=0.5),),
    "crash": (pr.hardware.Crash("worker/1", at=0.1),),
    "stalls and crash": (pr.hardware.Stall("worker/2", at=0.001, duration=0.3), pr.hardware.Crash("worker/3", at=0.03)),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("crew", [4, (2, 4)])
def test_workers_that_stall_or_are_lost_are_where_they_were_one_by_one(crew: Any, kind: str) -> None:
    def lossy(gradients: Any) -> pr.Run:
        slow = pr.Device("slow", 1e5)
        on = pr.Simulator(network="lan", devices=slow, faults=FAULTS[kind], gradients=gradients)
        return pr.run(training(small), workers=crew, strategy="adpsgd" if crew == 4 else "allreduce", on=on, seed=5)

    one, other = lossy(pr.OneByOne()), lossy(pr.SideBySide(threads=1))
    for name, weights in one.outcome.weights.items():
        torch.testing.assert_close(other.outcome.weights[name], weights, rtol=ROUNDING, atol=ROUNDING)
    for field in ("virtual_seconds", "bytes_sent", "steps", "samples", "lost"):
        assert getattr(one.summary, field) == getattr(other.summary, field), field
    assert not other.outcome.settings["gradients"].startswith("0 passes")


def test_hooks_on_gradients_are_called() -> None:
    seen: dict[str, int] = {}

    def hooked(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
        if not seen.get(f"hooked {id(model)}"):
            seen[f"hooked {id(model)}"] = 1
            next(iter(model.parameters())).register_hook(lambda gradient: 2 * gradient)
        F.cross_entropy(model(x), y).backward()

    assert "hooks are called in its passes" in same(training(small, hooked))


def test_a_step_that_differs_from_the_first_ones_is_an_error_that_says_what_to_do() -> None:
    def later(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if worker.clock > 2:
            worker.mean(loss)

    with pytest.raises(GradientsError, match=r"communicates between.*gradients=OneByOne\(\)"):
        ran(training(small, later), pr.SideBySide(threads=1))


def test_torch_is_as_it_was_after_a_run_that_failed() -> None:
    before = (torch.autograd.backward, torch.autograd.grad, vars(nn.Sequential)["forward"], F.scaled_dot_product_attention)

    def failing(worker: Any, model: nn.Module, x: Tensor, y: Tensor) -> None:
        F.cross_entropy(model(x), y).backward()
        raise ValueError("no more")

    with pytest.raises(pr.PolyrhythmError, match="no more"):
        ran(training(small, failing), pr.SideBySide(threads=2))
    assert (torch.autograd.backward, torch.autograd.grad, vars(nn.Sequential)["forward"], F.scaled_dot_product_attention) == before


def test_a_number_of_threads_below_0_is_refused() -> None:
    with pytest.raises(CompositionError, match="give 1 or more, or 0 for all cores"):
        pr.SideBySide(threads=-1)
