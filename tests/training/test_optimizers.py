"""Schedulers, parameter groups, clipping and accumulation: as in a single-process loop, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kinds import sampled
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler
from toy import data, network

from polyrhythm import systems
from polyrhythm.core import rng
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Nesterov, OuterOptimizer
from polyrhythm.topology import AllReduce, AllToAll, Bucketed, Server

from .scenes import EVERY_SYSTEM, LOCKSTEP_SERVER, flat, go, loop, sgd, trains

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]] = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "warm-up": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=4),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 12),
    "one-cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=40, cycle_momentum=False),
}


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def scheduled(name: str, first: bool, make: Callable[[nn.Module], torch.optim.Optimizer] = momentum) -> Callable[[Any], None]:
    """Trains with a scheduler that is made before attaching, if `first`, or after it."""

    def train(worker: Any) -> None:
        model = network()
        optimizer = make(model)
        scheduler = SCHEDULERS[name](optimizer) if first else None
        model, optimizer = worker.attach(model, optimizer)
        scheduler = scheduler or SCHEDULERS[name](optimizer)
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()

    return train


def by_hand(name: str) -> torch.Tensor:
    """The same without Polyrhythm."""
    rng.seed_everything(5, "worker", 0)
    model = network()
    optimizer = momentum(model)
    scheduler = SCHEDULERS[name](optimizer)
    x, y = data()
    order = rng.stream(5, "shuffle", 0).permutation(len(x))
    for start in range(0, len(x), 8):
        part = order[start : start + 8]
        optimizer.zero_grad()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
        scheduler.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("first", [True, False], ids=["before-attach", "after-attach"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_at_one_worker_is_that_of_the_plain_loop(name: str, first: bool) -> None:
    assert torch.equal(flat(go(scheduled(name, first), "allreduce", 1)), by_hand(name))
    assert torch.equal(flat(go(scheduled(name, first), LOCKSTEP_SERVER, 1)), by_hand(name))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates_travel_to_servers(name: str) -> None:
    served = flat(go(scheduled(name, True), LOCKSTEP_SERVER, 3))
    torch.testing.assert_close(served, flat(go(scheduled(name, True), "allreduce", 3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_a_scheduler_works_under_every_system_without_a_warning(system: str) -> None:
    for first in (True, False):
        go(scheduled("step", first), system, 2)


def cycling(worker: Any) -> None:
    model = network()
    optimizer = momentum(model)
    model, optimizer = worker.attach(model, optimizer)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=40)
    for x, y in worker.batches(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("system", ["allreduce", "ssp", "diloco", "gossipgrad"])
def test_momentum_cycles_where_workers_run_their_own_optimizer(system: str) -> None:
    go(cycling, system, 2)


@pytest.mark.parametrize("strategy", ["softsync", LOCKSTEP_SERVER], ids=str)
def test_cycling_momentum_at_a_server_is_refused_because_only_rates_travel(strategy: Any) -> None:
    with pytest.raises(
        CompositionError, match=r"Options of SGD other than the learning rate changed.*learning rates only.*cycle_momentum=False"
    ):
        go(cycling, strategy, 2)


def grouped(model: nn.Module) -> torch.optim.Optimizer:
    """Weights decay, biases do not and learn faster; the last layer has momentum of its own."""
    first, last = model[0], model[2]  # type: ignore[index]
    return torch.optim.SGD(
        [
            {"params": [first.weight], "weight_decay": 0.1},
            {"params": [first.bias, last.bias], "lr": 0.3},
            {"params": [last.weight], "momentum": 0.5},
        ],
        lr=0.05,
    )


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_parameter_groups_at_servers_are_those_of_the_worker(shards: int) -> None:
    local = flat(go(trains(grouped, epochs=2), "allreduce", 3))
    served = flat(go(trains(grouped, epochs=2), Strategy(topology=Server(shards)), 3))
    torch.testing.assert_close(served, local, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(local, flat(go(trains(sgd, epochs=2), "allreduce", 3)), atol=1e-3)


def test_a_server_that_has_one_rate_refuses_groups_with_several() -> None:
    with pytest.raises(CompositionError, match=r"one learning rate.*0.05, 0.3, 0.05.*give all groups the same"):
        go(trains(grouped), "downpour")


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_how_gradients_are_zeroed_changes_no_bit(system: str, set_to_none: bool) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, momentum(model))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad(set_to_none=set_to_none)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    assert torch.equal(flat(go(train, system, 3)), flat(go(trains(momentum), system, 3)))


def accumulating(times: int) -> Callable[[Any], None]:
    """`times` backward passes on batches of 8 / `times` samples before each step."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, momentum(model))
        for number, (x, y) in enumerate(worker.batches(data(), batch_size=8 // times), 1):
            (F.cross_entropy(model(x), y) / times).backward()
            if number % times == 0:
                optimizer.step()
                optimizer.zero_grad()

    return train


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("times", [2, 4])
def test_accumulated_gradients_are_those_of_the_bigger_batch(times: int, workers: int) -> None:
    many, whole = go(accumulating(times), "allreduce", workers), go(accumulating(1), "allreduce", workers)
    torch.testing.assert_close(flat(many), flat(whole), rtol=1e-5, atol=1e-6)
    assert (many.summary.samples, many.summary.steps) == (whole.summary.samples, whole.summary.steps) == (96, 96 // 8 // workers)


@pytest.mark.parametrize("system", ["allreduce", "sparknet", "softsync"])
def test_a_small_clip_norm_keeps_every_step_small(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model), clip_norm=1e-3)
        before = [p.detach().clone() for p in model.parameters()]
        loop(worker, model, optimizer)
        moved = torch.cat([(p.detach() - b).reshape(-1) for p, b in zip(model.parameters(), before, strict=True)]).norm()
        assert 0 < moved <= 0.1 * 1e-3 * 6 * (2 if system == "softsync" else 1) * 1.001

    go(train, system, 2)
    assert not torch.equal(flat(go(train, system, 2)), flat(go(trains(sgd), system, 2)))


def clipping(norm: float | None, by_step: bool = False) -> Callable[[Any], None]:
    """As `trains(sgd)`, with gradients clipped: by attach(), or by a trainer before each step."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model), clip_norm=None if by_step else norm)
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if by_step:
                worker.attached[0].clip(norm)
            optimizer.step()

    return train


@pytest.mark.parametrize("topology", [AllReduce(), AllToAll(), Bucketed(nbytes=32), Server()], ids=repr)
@pytest.mark.parametrize("by_step", [False, True])
def test_a_merge_with_an_optimizer_of_its_own_gets_clipped_gradients_as_the_users_does(topology: Any, by_step: bool) -> None:
    """SGD without momentum at a rate of 0.1, which is what `sgd` makes; norms are over all parameters."""
    merge, train = OuterOptimizer(Nesterov(0.1, 0.0)), clipping(0.05, by_step)
    own = go(train, Strategy(topology=topology), 2)
    torch.testing.assert_close(flat(go(train, Strategy(topology=topology, merge=merge), 2)), flat(own), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(flat(own), flat(go(trains(sgd), "allreduce", 2)), atol=1e-3)


@pytest.mark.parametrize("system", ["onebit-adam", systems.find("onebit", adagrad=True)], ids=["onebit-adam", "onebit"])
def test_clipping_is_seen_by_the_optimizers_of_systems(system: Any) -> None:
    """Clipped to the epsilon of Adam and of Adagrad, a gradient moves less than its sign."""
    far, near = (go(clipping(norm), system, 2) for norm in (None, 1e-9))
    start = flat(go(trains(lambda model: torch.optim.SGD(model.parameters(), lr=0.0)), "allreduce", 2))
    assert (flat(near) - start).norm() < 0.2 * (flat(far) - start).norm()


@pytest.mark.parametrize("system", ["signsgd", "demo"])
@pytest.mark.parametrize("by_step", [False, True])
def test_clipping_the_norm_of_what_only_its_signs_are_used_of_is_refused(system: str, by_step: bool) -> None:
    with pytest.raises(
        CompositionError, match=r"as long whatever the norm of the gradient, so clipping that to 0\.05 would change nothing"
    ):
        go(clipping(0.05, by_step), system, 2)


@pytest.mark.parametrize("system", ["allreduce", "diloco", "ssp", "softsync", "hogwild", "byteps"])
def test_a_closure_is_evaluated_once_and_its_loss_returned(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        evaluated = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            evaluated.append(F.cross_entropy(model(x), y))
            evaluated[-1].backward()
            return evaluated[-1]

        for batch in worker.batches(data(), batch_size=8):
            x, y = batch
            with torch.no_grad():
                loss = optimizer.step(closure)
            assert loss is evaluated[-1]
            worker.report(loss=loss)
        assert len(evaluated) == worker.clock

    assert torch.equal(flat(go(train, system)), flat(go(trains(sgd), system)))


def test_the_norm_of_a_single_step_is_that_of_the_merged_gradient() -> None:
    def clips(by_step: bool) -> Callable[[Any], None]:
        def train(worker: Any) -> None:
            model = network()
            model, optimizer = worker.attach(model, sgd(model), clip_norm=None if by_step else 0.05)
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                if by_step:
                    worker.attached[0].clip(0.05)
                optimizer.step()
            worker.report(loss=0.0)

        return train

    for system in ("allreduce", "diloco", "byteps"):
        assert torch.equal(flat(go(clips(True), system)), flat(go(clips(False), system)))
    assert not torch.equal(flat(go(clips(True))), flat(go(trains(sgd))))


@pytest.mark.parametrize("system", ["allreduce", "sparknet", "softsync"])
def test_an_optimizer_that_needs_a_closure_is_refused_when_it_is_attached(system: str) -> None:
    with pytest.raises(CompositionError, match=r"LBFGS evaluates the model several times.*such as SGD or AdamW"):
        go(trains(lambda model: torch.optim.LBFGS(model.parameters())), system)


def test_an_optimizer_that_needs_whole_matrices_is_refused_at_servers_alone() -> None:
    class Whole(torch.optim.SGD):
        """An optimizer of the user's own."""

    make = lambda model: Whole(model.parameters(), lr=0.1)  # noqa: E731
    go(trains(make), "allreduce")
    go(trains(make), "ssp")
    with pytest.raises(CompositionError, match=r"Whole cannot run at a server.*use one of SGD, Adam"):
        go(trains(make), "softsync")


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_a_loss_scaler_is_refused_with_what_to_use_instead(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        scaler = torch.amp.GradScaler("cpu", enabled=True)
        for x, y in worker.batches(data(), batch_size=8):
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()

    with pytest.raises(CompositionError, match=r"GradScaler lets each worker decide by itself.*use torch.autocast with bfloat16"):
        go(train, system)


def test_a_loss_scaler_that_is_switched_off_changes_nothing() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()

    assert torch.equal(flat(go(train)), flat(go(trains(sgd))))


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_autocast_in_bfloat16_trains_weights_of_full_precision(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for _ in range(3):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    out = model(x)
                    loss = F.cross_entropy(out.float(), y)
                assert out.dtype == torch.bfloat16
                loss.backward()
                optimizer.step()
            worker.report(loss=loss)

    outcome = go(train, system, 2)
    assert outcome.final["loss"] < 1.2
    assert {tensor.dtype for tensor in outcome.weights.values()} == {torch.float32}
