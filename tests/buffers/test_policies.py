"""With which batch-norm statistics the final weights are saved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import SLOW, data

from polyrhythm import systems
from polyrhythm.buffers import MEMBERS, MeanBuffers, OwnBuffers, RecalibratedBuffers
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Crash

every = pytest.mark.parametrize("policy", MEMBERS, ids=repr)


def normalized() -> nn.Module:
    model = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 3))
    model.register_buffer("positions", torch.rand(7, generator=torch.Generator().manual_seed(3)))
    return model


def under(policy: Any, system: str = "easgd", workers: int = 3, **more: Any) -> tuple[Any, dict[int, tuple[dict[str, Tensor], nn.Module]]]:
    """The run, and for each worker its buffers before finishing and its model after."""
    import dataclasses

    ended: dict[int, tuple[dict[str, Tensor], nn.Module]] = {}

    def train(worker: Any) -> None:
        model = normalized()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in range(4):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        own = {name: buffer.clone() for name, buffer in model.named_buffers()}
        worker.finish()
        ended[worker.rank] = own, model

    strategy = dataclasses.replace(systems.find(system), buffers=policy)
    return run(train, workers=workers, strategy=strategy, on=more.pop("on", Simulator(network=Instant())), seed=4), ended


@every
@pytest.mark.parametrize("system", ["easgd", "gossipgrad", "allreduce", "strom"])
def test_a_policy_that_averages_gives_every_worker_the_same_buffers(policy: Any, system: str) -> None:
    outcome, ended = under(policy, system)
    models = [model for _, model in ended.values()]
    same = [torch.equal(models[0][1].running_var, other[1].running_var) for other in models[1:]]  # type: ignore[index, union-attr]
    assert all(same) if policy.averaged else not any(same)
    assert torch.equal(outcome.weights["1.running_var"], ended[0][1][1].running_var)  # type: ignore[index, union-attr]


@every
def test_buffers_that_are_equal_everywhere_keep_every_bit(policy: Any) -> None:
    outcome, _ = under(policy)
    assert torch.equal(outcome.weights["positions"], normalized().positions)


def test_the_mean_is_over_what_the_workers_have() -> None:
    outcome, ended = under(MeanBuffers())
    expected = torch.stack([ended[rank][0]["1.running_mean"] for rank in range(3)]).mean(dim=0)
    assert torch.equal(outcome.weights["1.running_mean"], expected)


def test_ones_own_stay_as_training_left_them() -> None:
    outcome, ended = under(OwnBuffers())
    assert torch.equal(outcome.weights["1.running_mean"], ended[0][0]["1.running_mean"])


def test_recalibrated_statistics_are_those_of_the_last_batches_under_the_final_weights() -> None:
    calls: list[Tensor] = []

    def train(worker: Any) -> None:
        model = normalized()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            calls.append(x)
        model.eval()
        model(calls[0])
        worker.finish()
        inner = torch.stack([model[0](x).mean(dim=0) for x in calls[-4:]]).mean(dim=0)
        torch.testing.assert_close(model[1].running_mean, inner)
        assert not model.training
        assert model[1].momentum == 0.1

    run(train, workers=1, strategy=Strategy(buffers=RecalibratedBuffers(4)), on=Simulator(network=Instant()))


class Branches(nn.Module):
    """One layer trains, one is frozen, and one is not used; dropout is off."""

    def __init__(self) -> None:
        super().__init__()
        self.trains, self.frozen, self.unused = (nn.BatchNorm1d(10) for _ in range(3))
        self.dropout, self.last = nn.Dropout(0.5), nn.Linear(10, 3)
        for layer in (self.frozen, self.unused):
            nn.init.constant_(layer.running_mean, 5.0)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.dropout(self.frozen(self.trains(x))))
        return scores


@pytest.mark.parametrize("all_in_training_at_the_end", [False, True])
def test_layers_that_do_not_train_keep_their_statistics_and_every_module_its_mode(all_in_training_at_the_end: bool) -> None:
    def train(worker: Any) -> None:
        model = Branches()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        calls = []
        for x, y in worker.batches(data(), batch_size=8):
            model.train()
            model.frozen.eval()
            model.dropout.eval()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            calls.append(x)
        model.train(all_in_training_at_the_end)
        model.dropout.eval()
        before = {name: module.training for name, module in model.named_modules()}
        worker.finish()
        torch.testing.assert_close(model.trains.running_mean, torch.stack([x.mean(dim=0) for x in calls[-4:]]).mean(dim=0))
        for layer in (model.frozen, model.unused):
            assert torch.equal(layer.running_mean, torch.full((10,), 5.0))
            assert layer.num_batches_tracked == 0
        assert {name: module.training for name, module in model.named_modules()} == before

    run(train, workers=1, strategy=Strategy(buffers=RecalibratedBuffers(4)), on=Simulator(network=Instant()))


def test_recalibrating_what_never_ran_is_refused() -> None:
    def train(worker: Any) -> None:
        parts = nn.ModuleDict({"a": normalized()})
        _, optimizer = worker.attach(parts, torch.optim.SGD(parts.parameters(), lr=0.1))
        worker.count(1)
        parts["a"](data()[0]).sum().backward()
        optimizer.step()

    with pytest.raises(CompositionError, match=r"no training pass of ModuleDict.*call the attached module itself.*or use MeanBuffers"):
        run(train, workers=2, strategy=Strategy(buffers=RecalibratedBuffers()), on=Simulator(network=Instant()))


def test_no_batches_to_recalibrate_on_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"RecalibratedBuffers\(batches=0\).*give 1 or more"):
        RecalibratedBuffers(0)


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.3, 0.6, 0.68, 0.72, 0.76, 0.8])
@pytest.mark.parametrize("system", ["easgd", "strom", "downpour"])
def test_a_worker_lost_at_any_moment_holds_no_average_up(system: str, moment: float) -> None:
    outcome, _ = under(MeanBuffers(), system, 4, on=Simulator(network=SLOW, faults=(Crash("worker/2", at=moment),)))
    assert torch.isfinite(outcome.weights["1.running_mean"]).all()
