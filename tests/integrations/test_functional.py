"""Trees of tensors as a worker's parameters, moved by gradients of pure functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, vmap

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.functional import ParameterTree

X = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
Y = X.sum(dim=1, keepdim=True)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def begin() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def as_module(worker: Any) -> None:
    model, optimizer = worker.attach(model := begin(), sgd(model.parameters()))
    for x, y in worker.batches((X, Y), batch_size=4):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()


def as_function(worker: Any) -> None:
    model = begin()
    slope = grad(lambda params, x, y: (functional_call(model, params, (x,)) - y).square().mean())
    tree = ParameterTree(worker, dict(model.named_parameters()), sgd)
    for x, y in worker.batches((X, Y), batch_size=4):
        tree.step(slope(tree.params, x, y))


@pytest.mark.parametrize("system", ["allreduce", "diloco", "ssp", "gossipgrad"])
def test_a_pure_function_has_the_weights_of_the_module(system: str) -> None:
    one, other = (run(train, workers=2, strategy=system, on=Simulator(), seed=1).weights for train in (as_module, as_function))
    for a, b in zip(one.values(), other.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_real_processes_come_to_the_bits_of_virtual_time() -> None:
    real, virtual = (run(as_function, workers=2, on=on, seed=1).summary.weights_sha256 for on in (Processes(), Simulator()))
    assert real == virtual


def test_any_tree_keeps_its_structure_and_the_order_of_many_leaves() -> None:
    def train(worker: Any) -> None:
        params = {"b.c": [torch.full((2,), float(place)) for place in range(12)], "a": (torch.ones(()), {"d": torch.ones(1, 3)})}
        tree = ParameterTree(worker, params, lambda every: torch.optim.SGD(every, lr=1.0))
        before = tree.params
        assert [leaf[0].item() for leaf in before["b.c"]] == list(range(12))
        worker.count(1)
        after = tree.step({"b.c": [leaf / (1 + worker.rank) for leaf in before["b.c"]], "a": (torch.ones(()), {"d": torch.zeros(1, 3)})})
        assert [leaf[0].item() for leaf in after["b.c"]] == [place * 0.25 for place in range(12)]
        assert (after["a"][0].item(), after["a"][1]["d"].shape) == (0.0, (1, 3))
        assert before["a"][0].item() == 1.0

    run(train, workers=2, on=Simulator())


@pytest.mark.parametrize("leaf", [3.0, torch.ones(2, dtype=torch.int64), None])
def test_what_cannot_be_trained_is_refused(leaf: Any) -> None:
    with pytest.raises(CompositionError, match=r"params\['a'\]\[0\] is .*, which cannot be trained"):
        run(lambda worker: ParameterTree(worker, {"a": [leaf]}, sgd) and None, workers=1, on=Simulator())


def test_gradients_of_another_structure_are_refused() -> None:
    def train(worker: Any) -> None:
        ParameterTree(worker, {"a": torch.ones(2)}, sgd).step([torch.ones(2)])

    with pytest.raises(CompositionError, match="another structure"):
        run(train, workers=1, on=Simulator())


def test_the_gradient_of_a_mean_is_the_mean_of_the_gradients_of_samples() -> None:
    model = begin()
    params = dict(model.named_parameters())

    def loss(params: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = (functional_call(model, params, (x,)) - y).square().mean()
        return found

    samples = vmap(grad(loss), in_dims=(None, 0, 0))(params, X, Y)
    whole = grad(loss)(params, X, Y)
    through = grad(lambda given: vmap(loss, in_dims=(None, 0, 0))(given, X, Y).mean())(params)
    for name in params:
        torch.testing.assert_close(samples[name].mean(dim=0), whole[name], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(through[name], whole[name], rtol=1e-6, atol=1e-6)
