"""What regions divided over two and three axes send and keep: the counts of real axes, of counted ones, and the published formulas."""

from __future__ import annotations

from collections import Counter
from math import gcd, prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.grid import Features

from .grids import Case, Residual, cube, gpt, of_numbers, summa, tesseract, trained
from .ranks import on_ranks

SAMPLES, INPUTS, OUTPUTS = 36, 72, 144
"""Multiples of all powers of the sizes of axes."""


def coordinates(sizes: dict[str, int], rank: int) -> dict[str, int]:
    found = {}
    for name, size in reversed(sizes.items()):
        rank, found[name] = divmod(rank, size)
    return found


def counted(sizes: dict[str, int], rank: int = 0) -> Place:
    """A rank's place on axes that count what would be sent."""
    at = coordinates(sizes, rank)
    axes: dict[str, Axis] = {name: CountedAxis(name, size, at[name]) for name, size in sizes.items()}
    return Place(axes, initial=lambda whole, name, piece: torch.empty(piece.shape, device="meta"))


def counts(place: Place) -> dict[str, tuple[Counter[str], Counter[str]]]:
    return {name: (axis.calls, axis.nbytes) for name, axis in place.axes.items() if axis.size > 1}


@pytest.mark.parametrize("case", [summa(2, 3), tesseract(2, 1, 3), cube(2, 1, 2)], ids=str)
def test_counted_axes_count_what_real_ones_send(case: Case) -> None:
    def model() -> nn.Module:
        made = Residual()
        made.act = nn.Sequential(nn.ReLU(), nn.Dropout())
        return made

    def program(place: Place, rank: int) -> Any:
        trained(case.style.local(model(), "", place), of_numbers(7, 10), 1)
        return counts(place)

    for rank, sent in enumerate(on_ranks(program, **case.sizes)):
        place = counted(case.sizes, rank)
        with torch.device("meta"):
            local = case.style.local(model(), "", place)
            local(torch.randn(7, 3, 10)).square().mean().backward()
        assert counts(place) == sent


def layer(case: Case) -> tuple[dict[str, Axis], int, int]:
    """Its axes after a forward and a backward pass of one layer, the elements that it has kept between them, and those of its weights."""
    place = counted(case.sizes)
    layers = case.style.layers(place)
    layers.grid.batch.samples = SAMPLES
    with torch.device("meta"):
        local = layers.linear(nn.Linear(INPUTS, OUTPUTS, bias=False), "", place, Features(OUTPUTS))
        inputs = torch.empty(layers.grid.own_samples(), layers.grid.sizes(INPUTS, layers.grid.column)[0], requires_grad=True)
        kept: list[int] = []
        weights = {parameter.untyped_storage() for parameter in local.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            kept.append(tensor.numel() if tensor.untyped_storage() not in weights else 0)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            found = local(inputs)
        found.sum().backward()
    return dict(place.axes), sum(kept), sum(parameter.numel() for parameter in local.parameters())


X, W, Y = SAMPLES * INPUTS, INPUTS * OUTPUTS, SAMPLES * OUTPUTS


@pytest.mark.parametrize(("r", "c"), [(2, 2), (3, 3), (2, 3), (4, 2)])
def test_a_layer_of_summa_sends_three_times_its_row_of_inputs_and_its_column_of_weights(r: int, c: int) -> None:
    axes, kept, weights = layer(summa(r, c))
    steps = r + c - gcd(r, c)
    assert axes["column"].calls == axes["row"].calls == {"broadcast": 2 * steps, "reduce": steps}
    assert axes["column"].nbytes.total() == 3 * 4 * X // r * (c - 1) // c
    assert axes["row"].nbytes.total() == 3 * 4 * W // c * (r - 1) // r
    assert (kept, weights) == (X // (r * c), W // (r * c))


@pytest.mark.parametrize(("d", "q"), [(1, 2), (2, 2), (3, 2), (2, 3)])
def test_depth_divides_what_a_layer_sends_of_inputs_and_adds_the_gradients_of_weights(d: int, q: int) -> None:
    axes, kept, weights = layer(tesseract(d, q, q))
    assert axes["column"].nbytes.total() == 3 * 4 * X // (d * q) * (q - 1) // q
    assert axes["row"].nbytes.total() == 3 * 4 * W // q * (q - 1) // q
    assert axes["depth"].nbytes == Counter({"all_reduce": 2 * 4 * (d - 1) * W // (q * q) // d} if d > 1 else {})
    assert (kept, weights) == (X // (d * q * q), W // (q * q))


@pytest.mark.parametrize(("x", "y", "z"), [(2, 2, 2), (3, 3, 3), (1, 2, 3), (3, 2, 1)])
def test_a_layer_of_a_cube_gathers_and_adds_eight_faces_of_its_block(x: int, y: int, z: int) -> None:
    axes, kept, weights = layer(cube(x, y, z))
    ranks = x * y * z
    of = {"x": (W, x, {"all_gather": 2, "reduce_scatter": 1}), "y": (X, y, {"all_gather": 2, "reduce_scatter": 1})}
    for name, (whole, size, calls) in (of | {"z": (Y, z, {"all_gather": 1, "reduce_scatter": 1})}).items():
        assert axes[name].calls == calls
        assert axes[name].nbytes.total() == sum(calls.values()) * 4 * whole * (size - 1) // ranks
    assert (kept, weights) == (X // ranks, W // ranks)


@pytest.mark.parametrize("case", [summa(2, 2), tesseract(2, 2, 2), cube(2, 2, 2)], ids=str)
def test_all_parameters_of_a_gpt_are_divided_over_all_axes_but_depth(case: Case) -> None:
    with torch.device("meta"):
        whole = sum(parameter.numel() for parameter in gpt(16, 16, 4).parameters())
        local = case.style.local(gpt(16, 16, 4), "", counted(case.sizes))
    assert sum(parameter.numel() for parameter in local.parameters()) * prod(case.sizes.values()) == whole * case.sizes.get("depth", 1)
