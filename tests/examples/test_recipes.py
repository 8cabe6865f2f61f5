"""The short recipes compute the gradient of the whole batch, and say what they do."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

import polyrhythm as pr

from .scenes import EXAMPLES


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "recipes" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_split_batch_trains_as_a_whole_one_and_all_goes_through_its_root(ranks: int) -> None:
    module, found = recipe("split_batch"), dict[int, Any]()
    whole, _ = module.train(0, 1)

    def main() -> None:
        dist.init_process_group("gloo")
        found[dist.get_rank()] = module.train(dist.get_rank(), ranks)
        dist.destroy_process_group()

    pr.simulate(main, ranks=ranks, on=pr.Simulator())
    size = module.STEPS * 4 * sum(each.numel() for each in whole.parameters())
    for rank, (model, nbytes) in found.items():
        for one, other in zip(model.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
        assert nbytes == 2 * size * (1 if rank else ranks - 1)


def test_towers_have_the_gradient_of_the_batch_and_log_what_takes_the_place_of_missing_devices() -> None:
    module = recipe("towers")
    model, x = torch.nn.Linear(4, 3), torch.randn(10, 4)
    y, placement = x[:, :3].argmax(1), module.Placement({"cpu"})
    module.step(model, x, y, ["cuda:0", "cpu", "cpu"], placement)
    assert placement.log == ["tower 0: cpu (cuda:0 is not here)", "tower 1: cpu", "tower 2: cpu"]
    expected = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    for weight, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-6, atol=1e-6)
