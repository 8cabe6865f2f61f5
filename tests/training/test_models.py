"""Models as people write them: frozen, tied, idle, of other types, with buffers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds import sampled
from torch import Tensor, nn
from toy import network

from polyrhythm import systems
from polyrhythm.codec import Cast
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.topology import AllToAll, Bucketed

from .scenes import EVERY_SYSTEM, LOCKSTEP_SERVER, flat, go, loop, sgd, trains


def half_frozen() -> nn.Module:
    """The first layer does not learn."""
    model = network()
    for parameter in model[0].parameters():  # type: ignore[index]
        parameter.requires_grad_(False)
    return model


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_frozen_parameters_begin_as_those_of_worker_0_and_stay(system: str) -> None:
    initial: dict[int, Tensor] = {}

    def train(worker: Any) -> None:
        model = half_frozen()
        initial[worker.rank] = model[0].weight.detach().clone()  # type: ignore[index, union-attr]
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model, optimizer)
        assert torch.equal(model[0].weight, initial[0])

    outcome = go(train, system, 3)
    assert torch.equal(outcome.weights["0.weight"], initial[0])
    assert system == "single" or not torch.equal(initial[0], initial[1])


def test_frozen_parameters_are_sent_once_and_never_again() -> None:
    def nbytes_of(numel: int, topic: str, dtype: torch.dtype = torch.float32) -> int:
        return wire_bytes(Message(topic, tensors=(torch.zeros(numel, dtype=dtype),)))

    steps, learning, frozen = 6, 12 * 3 + 3, 10 * 12 + 12
    chunks = [nbytes_of(part, f"{step}.{hop}") for step in range(1, steps + 1) for hop in range(2) for part in (20, 19)]
    expected = nbytes_of(learning, "init") + nbytes_of(4 * frozen, "others", torch.uint8) + sum(chunks)
    assert go(trains(sgd, half_frozen), "allreduce", 2).summary.bytes_sent == expected


def test_a_trainable_parameter_that_no_optimizer_holds_is_refused_with_the_remedy() -> None:
    def last(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model[2].parameters(), lr=0.1)  # type: ignore[index, union-attr]

    with pytest.raises(
        CompositionError, match=r"No attached optimizer has 0.weight, 0.bias, which would.*freeze with requires_grad_\(False"
    ):
        go(trains(last), workers=3)


def test_unfreezing_after_attaching_is_refused() -> None:
    def train(worker: Any) -> None:
        model = half_frozen()
        model, optimizer = worker.attach(model, sgd(model))
        model.requires_grad_(True)
        loop(worker, model, optimizer)

    with pytest.raises(CompositionError, match=r"was frozen.*attach it with requires_grad=True"):
        go(train)


@pytest.mark.parametrize("system", ["allreduce", "sparknet"])
def test_converting_the_model_after_attaching_is_refused(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        model.double()
        loop(worker, model, optimizer)

    with pytest.raises(CompositionError, match=r"moved or converted after worker.attach.*before attaching"):
        go(train, system)


def test_loading_weights_after_attaching_is_taken_up() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
        model.load_state_dict({name: torch.full_like(tensor, 0.5) for name, tensor in model.state_dict().items()})
        loop(worker, model, optimizer)

    for system in ("allreduce", "gossipgrad"):
        assert set(flat(go(train, system, 2)).tolist()) == {0.5}


class Tied(nn.Module):
    """Encoder and decoder share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(10, 10, bias=False)
        self.decode = nn.Linear(10, 10, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(torch.tanh(self.encode(x)))[:, :3]


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_tied_weights_stay_tied_and_travel_once(system: str) -> None:
    def train(worker: Any) -> None:
        model = Tied()
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model, optimizer, epochs=2)
        assert model.decode.weight is model.encode.weight

    outcome = go(train, system, 3)
    assert torch.equal(outcome.weights["encode.weight"], outcome.weights["decode.weight"])
    Tied().load_state_dict(outcome.weights)


class Branches(nn.Module):
    """Uses one of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(10, 3), nn.Linear(10, 3)])
        self.chosen = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[self.chosen](x)


def begins_with_all(system: str) -> bool:
    """Whether every worker's first steps count, and in all parameters: not where one begins alone, some are drawn, a gate lets in what own
    steps go towards, or a step is on one block."""
    return system not in ("paine", "keuper-asgd", "asysg-incon") and not systems.find(system).chooses


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_a_parameter_without_a_gradient_at_some_workers_counts_as_zero_there(system: str) -> None:
    moved: list[bool] = []

    def train(worker: Any) -> None:
        model = Branches()
        model.chosen = worker.rank % 2
        model, optimizer = worker.attach(model, sgd(model))
        before = [p.detach().clone() for p in model.parameters()]
        loop(worker, model, optimizer)
        worker.finish()
        moved.extend(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))

    workers = go(train, system, 2).summary.workers
    assert all(moved) is (begins_with_all(system) and workers > 1)


ALTERNATIVES = (LOCKSTEP_SERVER, Strategy(codec=Cast(torch.float16)), Strategy(topology=Bucketed(nbytes=64)), Strategy(topology=AllToAll()))


ZEROS = {
    **dict.fromkeys(("onebit", "powersgd", "powersgd-plus"), (1,)),
    **dict.fromkeys(("qsgd", "terngrad", "dgc"), (1, 3)),
    "dlion": (3,),
}
"""Systems whose codecs do not keep the sign of a zero, which makes no gradient one of zeros, with so many workers."""


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("strategy", [*sampled(EVERY_SYSTEM), *ALTERNATIVES], ids=str)
def test_an_unused_parameter_keeps_no_gradient_and_does_not_decay(strategy: Any, workers: int) -> None:
    decayed: list[bool] = []

    def decaying(worker: Any) -> None:
        model = Branches()
        model, optimizer = worker.attach(model, torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5))
        before = model.layers[1].weight.detach().clone()  # type: ignore[union-attr]
        loop(worker, model, optimizer)
        decayed.append(not torch.equal(model.layers[1].weight, before))  # type: ignore[union-attr]
        assert (model.layers[1].weight.grad is not None) is decayed[-1]  # type: ignore[union-attr]

    go(decaying, strategy, workers)
    assert set(decayed) == {workers in ZEROS.get(strategy, ())}


@pytest.mark.parametrize("strategy", ["allreduce", "tree", LOCKSTEP_SERVER], ids=str)
def test_a_gradient_of_zeros_is_a_gradient(strategy: Any) -> None:
    def train(worker: Any) -> None:
        model = Branches()
        model, optimizer = worker.attach(model, torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5))
        before = model.layers[1].weight.detach().clone()  # type: ignore[union-attr]
        worker.count(1)
        for sign in (1.0, -1.0):
            optimizer.zero_grad()
            (model(torch.ones(2, 10)).sum() + sign * 0.0 * model.layers[1].weight.sum() * (worker.rank == 1)).backward()  # type: ignore[union-attr]
            optimizer.step()
        worker.finish()
        assert not torch.equal(model.layers[1].weight, before)  # type: ignore[union-attr]

    go(train, strategy, 3)


def normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 3))


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_buffers_are_averaged_when_the_run_finishes(system: str) -> None:
    own: dict[int, Tensor] = {}
    seen: dict[int, Tensor] = {}

    def train(worker: Any) -> None:
        model = normalized()
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model, optimizer)
        own[worker.rank] = model[1].running_mean.clone()
        worker.finish()
        seen[worker.rank] = model[1].running_mean.clone()

    outcome = go(train, system, 2)
    assert torch.equal(outcome.weights["1.running_mean"], torch.stack(list(own.values())).mean(dim=0))
    assert system == "single" or (torch.equal(seen[0], seen[1]) and not torch.equal(own[0], own[1]))
    assert outcome.weights["1.num_batches_tracked"].item() == outcome.summary.steps
    normalized().load_state_dict(outcome.weights)


def test_buffers_begin_as_those_of_worker_0() -> None:
    class Features(nn.Module):
        """Random features in a buffer, as for positions or Fourier features; one is complex."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("random", torch.randn(10, 10))
            self.register_buffer("turns", torch.randn(4, dtype=torch.complex64), persistent=False)
            self.last = nn.Linear(10, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.tanh(x @ self.random))

    seen: dict[int, tuple[Tensor, Tensor]] = {}

    def train(worker: Any) -> None:
        model = Features()
        model, optimizer = worker.attach(model, sgd(model))
        seen[worker.rank] = model.random, model.turns
        loop(worker, model, optimizer)

    go(train, "allreduce", 3)
    assert all(torch.equal(a, b) for rank in (1, 2) for a, b in zip(seen[rank], seen[0], strict=True))


@pytest.mark.parametrize("system", sampled(EVERY_SYSTEM))
def test_double_precision_stays_double_under_every_system(system: str) -> None:
    outcome = go(trains(sgd, lambda: network().double(), epochs=3), system, 3)
    assert {tensor.dtype for tensor in outcome.weights.values()} == {torch.float64}
    assert outcome.final["loss"] < 1.2


class Words(nn.Module):
    """An embedding whose gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 3, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x[:, 0].abs() * 5).long())


@pytest.mark.parametrize("system", ["allreduce", "direct", "tree", "onebit", "downpour", "softsync"])
def test_sparse_gradients_are_refused_where_gradients_are_exchanged(system: str) -> None:
    with pytest.raises(CompositionError, match=r"sparse.*build the embedding with sparse=False"):
        go(trains(sgd, Words), system)


@pytest.mark.parametrize("system", ["ssp", "sparknet", "gossipgrad", "diloco", "easgd", "strom"])
def test_sparse_gradients_are_welcome_where_workers_step_themselves(system: str) -> None:
    go(trains(sgd, Words), system)


@pytest.mark.parametrize("strategy", ["allreduce", LOCKSTEP_SERVER], ids=["allreduce", "server"])
def test_never_attaching_is_refused(strategy: Any) -> None:
    with pytest.raises(WorkloadError, match=r"never called worker.attach\(model, optimizer\)"):
        go(lambda worker: None, strategy)


def test_an_optimizer_of_another_model_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"has none of the model's parameters: build it from model.parameters\(\)"):
        go(trains(lambda model: sgd(network())))


def test_an_optimizer_that_holds_more_than_the_model_is_refused() -> None:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD([*model.parameters(), *network().parameters()], lr=0.1)

    with pytest.raises(CompositionError, match=r"has 4 parameters that do not belong to the model: attach the module that contains all"):
        go(trains(make))


def test_a_model_without_parameters_is_refused() -> None:
    def train(worker: Any) -> None:
        worker.attach(nn.Tanh(), sgd(network()))

    with pytest.raises(CompositionError, match=r"Tanh has no parameters, so there is nothing to train"):
        go(train)


def test_every_parameter_frozen_is_refused() -> None:
    def train(worker: Any) -> None:
        model = network().requires_grad_(False)
        worker.attach(model, sgd(model))

    with pytest.raises(CompositionError, match=r"has none of the model's parameters"):
        go(train)


def test_models_that_differ_in_their_buffers_are_refused() -> None:
    def train(worker: Any) -> None:
        model = network()
        model.register_buffer("own", torch.zeros(1 + worker.rank))
        worker.attach(model, sgd(model))

    with pytest.raises(CompositionError, match=r"attach the same model and optimizer at every worker"):
        go(train)
