"""The sum of contributions that were sent in ranges is the sum of what they decode to, bit for bit."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import Identity, Ranges
from polyrhythm.core.protocols.merge import AnyContribution, Contribution, EncodedContribution
from polyrhythm.core.tensors import NO_GRADIENT, Layout
from polyrhythm.merge.total import sum_of, total

LAYOUT = Layout(("w",), ((10,),))


def contributions(dtype: torch.dtype) -> list[AnyContribution]:
    draw = torch.Generator().manual_seed(3)
    own = torch.randn(10, generator=draw).to(dtype)
    own[7:] = NO_GRADIENT
    packets = [(torch.tensor([begin]), torch.randn(3, generator=draw).to(dtype)) for begin in (0, 2, 5, 7)]
    ranged = [EncodedContribution(packet, Ranges(3), LAYOUT, (), f"worker/{k}", 1) for k, packet in enumerate(packets)]
    whole = EncodedContribution((torch.randn(10, generator=draw).to(dtype),), Identity(), LAYOUT, (), "worker/9", 1)
    return [Contribution(own), *ranged[:2], whole, *ranged[2:]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_ranges_are_added_where_they_are(dtype: torch.dtype) -> None:
    given = contributions(dtype)
    for order in (given, given[::-1], given[1:3]):
        expected = total(each.value for each in order)
        assert sum_of(order).view(torch.uint8).tolist() == expected.view(torch.uint8).tolist()


def test_what_a_worker_has_computed_is_not_written_to() -> None:
    own, *others = contributions(torch.float32)
    before = own.value.clone()
    sum_of([own, *others])
    assert torch.equal(own.value, before)
