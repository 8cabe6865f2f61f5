"""Threshold by hand: the words of Strom (2015)."""

from __future__ import annotations

import torch

from polyrhythm.codec import ErrorFeedback, Threshold
from polyrhythm.core.tensors import Layout

from .aggregation import alone, normal, payload, same_bits

LAYOUT = Layout(("p",), ((6,),))


def test_a_word_is_thirty_one_bits_of_index_and_the_sign() -> None:
    value = torch.tensor([-2.0, 0.5, 3.0, -0.5, -1.5, 1.0])
    encoded = Threshold(1.0).encode(value, LAYOUT, {}, alone())
    assert encoded.packet[0].dtype == torch.int32
    assert encoded.packet[0].tolist() == [-(2**31), 2, 4 - 2**31]
    assert encoded.sent.tolist() == [-1.0, 0.0, 1.0, 0.0, -1.0, 0.0]


def test_index_zero_with_a_plus_sign_is_the_word_zero() -> None:
    assert Threshold(1.0).encode(torch.tensor([2.0, 0, 0, 0, 0, 0]), LAYOUT, {}, alone()).packet[0].tolist() == [0]


def test_the_highest_index_survives_with_either_sign() -> None:
    indices, values = Threshold(1.0).entries((torch.tensor([2**31 - 1, -1], dtype=torch.int32),))
    assert indices.tolist() == [2**31 - 1, 2**31 - 1]
    assert values.tolist() == [1.0, -1.0]


def test_one_quantum_leaves_at_a_time_and_the_excess_is_kept() -> None:
    codec = ErrorFeedback(Threshold(1.0))
    state, zero = codec.initial(LAYOUT), torch.zeros(6)
    encoded = codec.encode(torch.tensor([2.5, -1.25, 0.75, 0.0, 0.0, 0.0]), LAYOUT, state, alone())
    assert codec.residual(encoded.state, LAYOUT).tolist() == [1.5, -0.25, 0.75, 0.0, 0.0, 0.0]
    encoded = codec.encode(zero, LAYOUT, encoded.state, alone())
    assert encoded.sent.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    encoded = codec.encode(zero, LAYOUT, encoded.state, alone())
    assert encoded.packet[0].numel() == 0
    assert codec.residual(encoded.state, LAYOUT).tolist() == [0.5, -0.25, 0.75, 0.0, 0.0, 0.0]


def test_a_packet_has_four_bytes_for_each_element_above_tau() -> None:
    layout, value = Layout(("p",), ((1000,),)), normal(0, 1000)
    assert payload(Threshold(1.5).encode(value, layout, {}, alone()).packet) == 4 * int((value.abs() > 1.5).sum())


def test_doubles_take_words_of_eight_bytes_and_an_exact_quantum() -> None:
    codec, value = Threshold(0.1), torch.tensor([-1.0, 0, 0, 0, 0, 1.0], dtype=torch.float64)
    encoded = codec.encode(value, LAYOUT, {}, alone())
    assert encoded.packet[0].dtype == torch.int64
    assert encoded.sent.tolist() == [-0.1, 0.0, 0.0, 0.0, 0.0, 0.1]
    assert same_bits(codec.decode(encoded.packet, LAYOUT), encoded.sent)
