"""Laws of regions divided over two and three axes: they compute what one process computes, and send and keep what the formulas say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from polyrhythm.partition.place import Place

from .grids import Case, Residual, cube, gpt, of_numbers, of_symbols, summa, tesseract, trains_as_one_process

MESHES = [
    *(summa(1, 1), summa(2, 2, steps=20), summa(1, 3), summa(3, 2), summa(2, 4)),
    *(tesseract(1, 1, 1, steps=20), tesseract(2, 2, 2), tesseract(2, 1, 2, steps=20), tesseract(3, 2, 1)),
    *(cube(1, 2, 2, steps=20), cube(2, 2, 2), cube(1, 2, 3), cube(3, 1, 2), cube(2, 3, 1)),
]


def divided(case: Case) -> object:
    def divide(model: nn.Module, place: Place) -> nn.Module:
        assert case.style.refusal(model, place) == ""
        return case.style.local(model, "", place)  # type: ignore[no-any-return]

    return divide


@pytest.mark.parametrize("case", MESHES, ids=str)
def test_a_residual_block_of_odd_sizes_trains_as_one_process(case: Case) -> None:
    trains_as_one_process(Residual, divided(case), of_numbers(7, 10), case.sizes, case.steps)


@pytest.mark.parametrize(
    "case", [summa(2, 2, steps=20), summa(1, 3), tesseract(2, 1, 2, steps=20), cube(1, 2, 2, steps=20), cube(2, 2, 2)], ids=str
)
def test_a_whole_gpt_trains_as_one_process(case: Case) -> None:
    """Of three columns, one has two of the four heads."""
    style = replace(case.style, unit=4, groups={"*query_key_value": 3})
    trains_as_one_process(gpt, divided(replace(case, style=style)), of_symbols(5, 6, 13), case.sizes, case.steps)
