"""Four bits an element, against numbers worked out by hand."""

from __future__ import annotations

import torch

from polyrhythm.codec import E3M0
from polyrhythm.core.tensors import Layout

from .aggregation import alone, normal

TWO = Layout(("a", "b"), ((2, 3), (3,)))


def test_elements_become_the_nearest_power_of_two_times_the_largest_of_their_tensor() -> None:
    value = torch.tensor([8.0, -4.1, 3.0, 0.13, -0.07, 0.06, 0.1, -0.1, 0.0])
    encoded = E3M0().encode(value, TWO, {}, alone(TWO))
    # the first tensor has the scale 8: halfway between 2 and 4 goes up, 0.0625 is halfway between nothing and the least, 1/8
    expected = torch.tensor([8.0, -4.0, 4.0, 0.125, -0.125, 0.0, 0.1, -0.1, 0.0])
    assert torch.equal(encoded.sent, expected)


def test_a_packet_has_two_elements_a_byte_the_first_in_the_higher_half_and_a_scale_a_tensor() -> None:
    value = torch.tensor([8.0, -4.1, 3.0, 0.13, -0.07, 0.06, 0.1, -0.1, 0.0])
    codes, scales = E3M0().encode(value, TWO, {}, alone(TWO)).packet
    assert codes.tolist() == [0x7E, 0x61, 0x90, 0x7F, 0x00]  # 7 is the scale itself, 8 more is minus
    assert torch.equal(scales, torch.tensor([8.0, 0.1]))
    assert codes.dtype == torch.uint8


def test_what_is_not_finite_is_seen_in_its_tensor_alone() -> None:
    for bad in (float("nan"), float("inf")):
        value = torch.tensor([1.0, bad, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 4.0])
        sent = E3M0().encode(value, TWO, {}, alone(TWO)).sent
        assert not torch.isfinite(sent[:6]).all()
        assert sent[6:].tolist() == [2.0, 1.0, 4.0]


def test_an_element_above_the_least_level_is_sent_to_a_third_of_itself() -> None:
    layout = Layout(("w",), ((400, 30),))
    value = normal(3, layout.numel)
    sent = E3M0().encode(value, layout, {}, alone(layout)).sent
    large = value.abs() >= value.abs().max() / 64
    assert ((sent - value).abs() <= value.abs() / 3 + 1e-6)[large].all()


def test_nothing_is_sent_of_nothing() -> None:
    empty = Layout(("w",), ((0, 4),))
    codec = E3M0()
    assert codec.encode(torch.empty(0), empty, {}, alone(empty)).sent.numel() == 0
    zeros = codec.encode(torch.zeros(9), TWO, {}, alone(TWO)).sent
    assert not zeros.any()
