"""Cast by hand."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import Cast, ErrorFeedback
from polyrhythm.pieces.questions import Reduce
from polyrhythm.tensors import Layout

from .conversation import Circle, draw, normal, payload

LAYOUT = Layout(("p",), ((100,),))
HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@HALVES
def test_values_are_rounded_to_the_half_type_and_take_two_bytes(dtype: torch.dtype) -> None:
    value = normal(0, 100)
    encoded = Cast(dtype).encode(value, LAYOUT, {}, draw())
    assert torch.equal(encoded.said, value.to(dtype).float())
    assert payload(encoded.packet) == 2 * 100


@HALVES
def test_sums_are_made_in_the_half_type(dtype: torch.dtype) -> None:
    circle = Circle(Cast(dtype), LAYOUT, 3)
    values = [normal(rank, 100) for rank in range(3)]
    told = circle.round(values)
    assert circle.questions == [Reduce]
    assert torch.equal(told[0].total, (values[0].to(dtype) + values[1].to(dtype) + values[2].to(dtype)).float())


def test_small_steps_that_rounding_would_swallow_are_said_in_the_end() -> None:
    codec = ErrorFeedback(Cast(torch.bfloat16))
    state, said = codec.initial(LAYOUT), torch.zeros(100)
    value = torch.full((100,), 1 + 2**-10)
    for _ in range(64):
        encoded = codec.encode(value, LAYOUT, state, draw())
        state, said = encoded.state, said + encoded.said
    assert ((said - 64 * value).abs() <= 2**-7).all()
    assert (Cast(torch.bfloat16).encode(value, LAYOUT, {}, draw()).said == 1).all()
