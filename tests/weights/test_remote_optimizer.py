"""The user's optimizer at a server takes the steps that it would take at the user's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.remote_optimizer import RemoteOptimizer, describe
from polyrhythm.core.weights.state import Optimize

LAYOUT = Layout(("p", "q"), ((3, 2), (3,)))


def pair(make: Any) -> tuple[torch.optim.Optimizer, list[torch.nn.Parameter], torch.Tensor, Optimize]:
    """An optimizer at its user's, its parameters, and the hosted one with its weights."""
    weights = torch.arange(1.0, 10.0)
    parameters = [torch.nn.Parameter(view.clone()) for view in LAYOUT.views(weights)]
    optimizer = make(parameters)
    recipe = describe(optimizer, {id(p): name for p, name in zip(parameters, LAYOUT.names, strict=True)})
    return optimizer, parameters, weights, RemoteOptimizer(recipe, weights, LAYOUT).step_on


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=1.0, lr_decay=0.1),
        lambda p: torch.optim.SGD([{"params": p[:1]}, {"params": p[1:], "weight_decay": 0.1}], lr=0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True, betas=(0.8, 0.9)),
        lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5),
        lambda p: torch.optim.Rprop(p, lr=0.1),
        lambda p: torch.optim.ASGD(p, lr=0.1),
    ],
    ids=["adagrad", "sgd in groups", "adamw", "rmsprop", "rprop", "asgd"],
)
def test_every_option_reaches_the_server(make: Any) -> None:
    optimizer, parameters, weights, optimize = pair(make)
    for step in range(4):
        gradient = torch.linspace(-1, 1, 9) * (step + 1)
        for parameter, part in zip(parameters, LAYOUT.views(gradient), strict=True):
            parameter.grad = part.clone()
        optimizer.step()
        optimize(gradient, tuple(group["lr"] for group in optimizer.param_groups))
        torch.testing.assert_close(weights, torch.cat([p.detach().reshape(-1) for p in parameters]))


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {}], ids=str)
def test_a_gradient_that_has_been_received_is_not_written_to(options: dict[str, bool]) -> None:
    _, _, _, optimize = pair(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, **options))
    gradient = torch.ones(9)
    for _ in range(3):
        optimize(gradient, (0.1,))
    assert torch.equal(gradient, torch.ones(9))


def test_how_a_device_computes_is_left_to_the_server_which_may_have_another() -> None:
    _, _, weights, optimize = pair(lambda p: torch.optim.Adam(p, lr=0.1, capturable=True))  # CUDA alone can capture
    optimize(torch.ones(9), (0.1,))
    torch.testing.assert_close(weights, torch.arange(1.0, 10.0) - 0.1)
