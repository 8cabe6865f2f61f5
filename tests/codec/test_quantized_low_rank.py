"""QuantizedLowRank against LowRank and the codec of its factors."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import E3M0, ErrorFeedback, Identity, LowRank, QuantizedLowRank, StochasticLevels, Striped
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import CollectiveClient, normal

LAYOUT = Layout(("w", "b"), ((32, 24), (5,)))


def test_with_exact_factors_it_is_low_rank() -> None:
    quantized, plain = (CollectiveClient(codec, LAYOUT, 3) for codec in (QuantizedLowRank(2, Identity()), LowRank(2)))
    for step in range(3):
        values = [normal(10 * step + rank, LAYOUT.numel) for rank in range(3)]
        for one, other in zip(quantized.round(values), plain.round(values), strict=True):
            torch.testing.assert_close(one.total, other.total, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(one.sent, other.sent, rtol=1e-4, atol=1e-4)


def test_all_that_was_sent_is_the_total() -> None:
    client = CollectiveClient(QuantizedLowRank(2), LAYOUT, 3)
    found = client.round([normal(rank, LAYOUT.numel) for rank in range(3)])
    torch.testing.assert_close(sum(each.sent for each in found), found[0].total, rtol=1e-4, atol=1e-4)


def test_with_error_feedback_the_mean_of_what_is_sent_becomes_what_is_given() -> None:
    client, value = CollectiveClient(ErrorFeedback(QuantizedLowRank(4)), LAYOUT, 1), normal(1, LAYOUT.numel)
    errors = []
    sent = torch.zeros_like(value)
    for step in range(1, 61):
        sent += client.round([value])[0].total
        errors.append(float((sent / step - value).norm() / value.norm()))
    assert errors[-1] < 0.3 * errors[0]


@pytest.mark.parametrize("factors", [ErrorFeedback(E3M0()), Striped(E3M0()), LowRank(1)], ids=repr)
def test_factors_that_would_need_a_state_are_refused(factors: object) -> None:
    with pytest.raises(CompositionError, match="wrap the whole in ErrorFeedback"):
        QuantizedLowRank(2, factors)  # type: ignore[arg-type]


def test_other_codecs_of_few_bits_may_send_the_factors() -> None:
    CollectiveClient(QuantizedLowRank(1, StochasticLevels(4)), LAYOUT, 2).round([normal(rank, LAYOUT.numel) for rank in range(2)])
