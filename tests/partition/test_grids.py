"""Laws of regions divided over two and three axes: they compute what one process computes, and send and keep what the formulas say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.summa import Summa

from .grids import Case, Residual, cube, gpt, of_numbers, of_symbols, summa, tesseract, trains_as_one_process
from .ranks import close, on_ranks

MESHES = [
    *(summa(1, 1), summa(2, 2, steps=20), summa(1, 3), summa(3, 2), summa(2, 4)),
    *(tesseract(1, 1, 1, steps=20), tesseract(2, 2, 2), tesseract(2, 1, 2, steps=20), tesseract(3, 2, 1)),
    *(cube(1, 2, 2, steps=20), cube(2, 2, 2), cube(1, 2, 3), cube(3, 1, 2), cube(2, 3, 1)),
]


def divided(case: Case) -> Callable[[nn.Module, Place], nn.Module]:
    def divide(model: nn.Module, place: Place) -> nn.Module:
        assert case.style.refusal(model, place) == ""
        return case.style.local(model, "", place)  # type: ignore[no-any-return]

    return divide


@pytest.mark.parametrize("case", MESHES, ids=str)
def test_a_residual_block_of_odd_sizes_trains_as_one_process(case: Case) -> None:
    trains_as_one_process(Residual, divided(case), of_numbers(7, 10), case.sizes, case.steps)


@pytest.mark.parametrize("case", [summa(2, 2, steps=20), summa(1, 3), tesseract(2, 1, 2), cube(1, 2, 2), cube(2, 2, 2)], ids=str)
def test_a_whole_gpt_trains_as_one_process(case: Case) -> None:
    """Of three columns, one has two of the four heads."""
    style = replace(case.style, unit=4, groups={"*query_key_value": 3})
    trains_as_one_process(gpt, divided(replace(case, style=style)), of_symbols(5, 6, 13), case.sizes, case.steps)


@pytest.mark.parametrize("case", [summa(3, 4), tesseract(2, 2, 3), cube(2, 3, 2)], ids=str)
def test_ranks_without_samples_or_features_train_along(case: Case) -> None:
    trains_as_one_process(lambda: Residual(3, 2), divided(case), of_numbers(2, 3), case.sizes, case.steps)


@pytest.mark.parametrize("case", [summa(2, 2), tesseract(2, 1, 2), cube(1, 2, 2)], ids=str)
def test_dropout_drops_what_one_process_drops(case: Case) -> None:
    def one(model: nn.Module) -> nn.Module:
        alone: dict[str, Axis] = {name: AxisOfOne(name) for name in case.sizes}
        return case.style.local(model, "", Place(alone))  # type: ignore[no-any-return]

    def make() -> nn.Module:
        model = Residual()
        model.act = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))
        return model

    assert not torch.equal(one(make())(ones := torch.ones(7, 3, 10)), make().eval()(ones))
    trains_as_one_process(make, divided(case), of_numbers(7, 10), case.sizes, case.steps, one)


def test_a_norm_of_divided_features_is_exact_where_the_mean_is_large() -> None:
    x = (torch.randn(5, 9, generator=torch.Generator().manual_seed(0)) + 1e4).requires_grad_()
    whole = F.layer_norm(x.double(), (9,))

    def program(place: Place, rank: int) -> tuple[Tensor, Tensor]:
        own = x.detach().clone().requires_grad_()
        found = Summa().local(nn.LayerNorm(9), "", place)(own)
        found.pow(3).sum().backward()
        assert own.grad is not None
        return found.detach(), own.grad

    whole.pow(3).sum().backward()
    assert x.grad is not None
    for found, gradient in on_ranks(program, row=1, column=4):
        close(found, whole.detach().float(), atol=2e-3)
        close(gradient, x.grad, atol=2e-2)


@pytest.mark.parametrize("case", [summa(2, 2), tesseract(2, 1, 2), cube(1, 2, 2)], ids=str)
@pytest.mark.parametrize("mixed", [True, False])
def test_products_of_16_bits_are_added_in_32(case: Case, mixed: bool) -> None:
    def outputs(divide: Callable[[nn.Module], nn.Module]) -> Tensor:
        model = divide(Residual() if mixed else Residual().bfloat16())
        x = torch.randn(7, 3, 10, generator=torch.Generator().manual_seed(0))
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            y = model(x if mixed else x.bfloat16())
        y.float().square().mean().backward()
        assert all(parameter.grad is not None and parameter.grad.dtype == parameter.dtype for parameter in model.parameters())
        return y.detach().float()

    whole = outputs(lambda model: model)
    for found in on_ranks(lambda place, rank: outputs(lambda model: case.style.local(model, "", place)), **case.sizes):
        close(found, whole, rtol=1e-2, atol=2e-2)
