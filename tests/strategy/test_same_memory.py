"""Parameters in the same memory: one parameter of two modules stays tied, and two tensors that would be untied are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import AliasWarning, CompositionError

RUNTIMES = {"simulator": Simulator(network=Instant()), "processes": Processes()}


class Twins(nn.Module):
    """Two layers of equal shapes after a network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.b(torch.tanh(self.a(self.body(x))))


def same_data(model: Twins) -> object:
    model.a.weight.data = model.b.weight.data
    return None


def frozen_twin(model: Twins) -> object:
    model.b.weight = nn.Parameter(model.a.weight.detach(), requires_grad=False)
    return None


def as_a_buffer(model: Twins) -> object:
    model.register_buffer("shown", model.a.weight.data)
    return None


def views_of_a_buffer(model: Twins) -> object:
    both = torch.zeros(18)
    model.a.weight.data, model.b.weight.data = both[:9].view(3, 3), both[9:].view(3, 3)
    return both


def part_of_a_buffer(model: Twins) -> object:
    large = torch.zeros(4, 3)
    model.a.weight.data = large[1:]
    return large


def one_parameter(model: Twins) -> object:
    model.a.weight = model.b.weight
    return None


def parts_of_nothing(model: Twins) -> object:
    """The way of a layer that cuts one matrix into two parameters."""
    left, right = torch.randn(3, 6).chunk(2, dim=1)
    model.a.weight, model.b.weight = nn.Parameter(left), nn.Parameter(right)
    return None


def attaching(change: Callable[[Twins], object], times: int = 1) -> Callable[[Any], None]:
    def train(worker: Any) -> None:
        model = Twins()
        held = change(model)
        model, optimizer = worker.attach(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
        for x, y in worker.batches(data(), batch_size=24):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        del held

    return train


@pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)
@pytest.mark.parametrize("change", [same_data, frozen_twin, as_a_buffer, views_of_a_buffer, part_of_a_buffer])
def test_what_attaching_would_untie_is_refused_with_its_name(change: Callable[[Twins], object], on: Runtime) -> None:
    with pytest.raises(CompositionError, match=r"(a\.weight|b\.weight).*worker\.attach would"):
        run(attaching(change), workers=2, strategy="allreduce", on=on, seed=5)


def a_state(model: Twins) -> object:
    return model.state_dict()


def an_array(model: Twins) -> object:
    return model.a.weight.detach().numpy()


def a_view(model: Twins) -> object:
    return model.a.weight.data.t()


def a_copy(model: Twins) -> object:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)
@pytest.mark.parametrize("taken", [a_state, an_array, a_view])
def test_a_tensor_that_attaching_leaves_behind_is_reported(taken: Callable[[Twins], object], on: Runtime) -> None:
    def train(worker: Any) -> None:
        with pytest.warns(AliasWarning, match=r"has the memory of .*after worker\.attach"):
            attaching(taken)(worker)

    run(train, workers=2, strategy="mxnet", on=on, seed=5)


def test_a_copy_is_not_reported() -> None:
    run(attaching(a_copy), workers=2, strategy="mxnet", on=RUNTIMES["simulator"], seed=5)


@pytest.mark.parametrize("strategy", ["allreduce", "mxnet", "easgd", "hogwild"])
def test_one_parameter_of_two_modules_stays_tied(strategy: str) -> None:
    weights = run(attaching(one_parameter), workers=2, strategy=strategy, on=RUNTIMES["simulator"], seed=5).weights
    assert torch.equal(weights["a.weight"], weights["b.weight"])


def test_parts_of_a_tensor_that_nothing_holds_are_parameters_like_others() -> None:
    run(attaching(parts_of_nothing), workers=2, strategy="allreduce", on=RUNTIMES["simulator"], seed=5)


def test_a_model_that_another_run_has_trained_can_be_attached_again() -> None:
    model = Twins()

    def train(worker: Any) -> None:
        attached, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in worker.batches(data(), batch_size=24):
            optimizer.zero_grad()
            F.cross_entropy(attached(x), y).backward()
            optimizer.step()

    for _ in range(2):
        run(train, workers=1, strategy="allreduce", on=RUNTIMES["simulator"], seed=5)


def test_a_model_of_one_parameter_that_another_run_has_trained_is_not_reported() -> None:
    model = nn.Linear(8, 1, bias=False)

    def train(worker: Any) -> None:
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))

    for _ in range(2):
        run(train, workers=1, on=RUNTIMES["simulator"])
