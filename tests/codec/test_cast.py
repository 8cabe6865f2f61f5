"""Cast by hand."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import Cast, ErrorFeedback
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.tensors import Layout

from .aggregation import CollectiveClient, alone, normal, payload

LAYOUT = Layout(("p",), ((100,),))
HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@HALVES
def test_values_are_rounded_to_the_half_type_and_take_two_bytes(dtype: torch.dtype) -> None:
    value = normal(0, 100)
    encoded = Cast(dtype).encode(value, LAYOUT, {}, alone())
    assert torch.equal(encoded.sent, value.to(dtype).float())
    assert payload(encoded.packet) == 2 * 100


@HALVES
def test_sums_are_made_in_the_half_type(dtype: torch.dtype) -> None:
    client = CollectiveClient(Cast(dtype), LAYOUT, 3)
    values = [normal(rank, 100) for rank in range(3)]
    aggregated = client.round(values)
    assert client.questions == [AllReduceRequest]
    assert torch.equal(aggregated[0].total, (values[0].to(dtype) + values[1].to(dtype) + values[2].to(dtype)).float())


def test_small_steps_that_rounding_would_swallow_are_sent_in_the_end() -> None:
    codec = ErrorFeedback(Cast(torch.bfloat16))
    state, sent = codec.initial(LAYOUT), torch.zeros(100)
    value = torch.full((100,), 1 + 2**-10)
    for _ in range(64):
        encoded = codec.encode(value, LAYOUT, state, alone())
        state, sent = encoded.state, sent + encoded.sent
    assert ((sent - 64 * value).abs() <= 2**-7).all()
    assert (Cast(torch.bfloat16).encode(value, LAYOUT, {}, alone()).sent == 1).all()
