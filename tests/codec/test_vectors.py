"""Packets as the originals define them, byte for byte: written out by hand from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from polyrhythm.codec import AdaptiveThreshold, ErrorFeedback, GapCoded, OneBit, OneBitTensorwise, Threshold, TwoBit, UnitSigns
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.tensors import Layout

from .aggregation import alone, normal, payload, same_bits

MATRIX = Layout(("w",), ((2, 4),))
ROWS = torch.tensor([1.0, -2.0, 3.0, -4.0, 0.0, 10.0, 20.0, -1.0])


def vector(numel: int) -> Layout:
    return Layout(("p",), ((numel,),))


def spoken(codec: PacketCodec, value: Tensor, layout: Layout | None = None) -> list[str]:
    """The tensors of a packet in hexadecimal, as their bytes lie in memory."""
    layout = layout or vector(value.numel())
    encoded = codec.encode(value, layout, codec.initial(layout), alone(layout))
    assert same_bits(codec.decode(encoded.packet, layout), encoded.sent)
    return [tensor.numpy().tobytes().hex() for tensor in encoded.packet]


def test_two_bits_are_those_of_mxnet() -> None:
    """11 for up, 10 for down, the first value in the highest bits of the first byte, filled up to a word of sixteen."""
    value = torch.tensor([0.5, -0.5, 0.49, 1.0, -3.0, 0.0, 0.5, -0.49])
    assert spoken(TwoBit(0.5), value) == ["e38c0000", ""]  # 11 10 00 11, 10 00 11 00
    assert spoken(TwoBit(0.5), torch.full((16,), 0.75)) == ["ffffffff", ""]
    assert spoken(TwoBit(0.5), torch.full((17,), -0.75)) == ["aaaaaaaa80000000", ""]
    assert spoken(TwoBit(0.5), torch.tensor([torch.nan, torch.inf, -torch.inf])) == ["38000000", ""]


def test_one_bit_of_mxnet_is_above_the_threshold_or_not() -> None:
    value = torch.tensor([0.6, 0.5, -1.0, 9.0, 0.0, 0.0, 0.0, 0.51, 2.0])
    assert spoken(UnitSigns(0.5), value) == ["91800000", ""]  # 1001 0001, 1
    assert spoken(UnitSigns(0.0), torch.ones(33)) == ["ffffffff80000000", ""]
    layout = vector(3)
    assert UnitSigns(0.5).encode(torch.tensor([0.6, 0.5, -9.0]), layout, {}, alone()).sent.tolist() == [1.0, -1.0, -1.0]


def two_bits_of_mxnet(gradient: np.ndarray, residual: np.ndarray, threshold: np.float32) -> bytes:
    """The loop over elements, in its own arithmetic; `residual` is changed as it changes it."""
    packed = bytearray(4 * -(-len(gradient) // 16))
    for i, g in enumerate(gradient):
        residual[i] += g
        if residual[i] >= threshold:
            packed[i >> 2] |= (0xC0, 0x30, 0x0C, 0x03)[i & 3]
            residual[i] -= threshold
        elif residual[i] <= -threshold:
            packed[i >> 2] |= (0x80, 0x20, 0x08, 0x02)[i & 3]
            residual[i] -= -threshold
    return bytes(packed)


def one_bit_of_mxnet(gradient: np.ndarray, residual: np.ndarray, threshold: np.float32) -> bytes:
    packed = bytearray(4 * -(-len(gradient) // 32))
    for i, g in enumerate(gradient):
        residual[i] += g
        if residual[i] > threshold:
            packed[i >> 3] |= 0x80 >> (i & 7)
            residual[i] -= np.float32(1)
        else:
            residual[i] += np.float32(1)
    return bytes(packed)


@pytest.mark.parametrize(("codec", "reference"), [(TwoBit(0.3), two_bits_of_mxnet), (UnitSigns(0.3), one_bit_of_mxnet)], ids=["2", "1"])
def test_with_error_feedback_it_is_the_loop_of_mxnet_bit_for_bit(codec: PacketCodec, reference) -> None:  # type: ignore[no-untyped-def]
    feedback, layout, residual = ErrorFeedback(codec), vector(101), np.zeros(101, dtype=np.float32)
    state = feedback.initial(layout)
    for step in range(20):
        gradient = normal(step, 101) * 0.4
        encoded = feedback.encode(gradient, layout, state, alone())
        assert encoded.packet[0].numpy().tobytes() == reference(gradient.numpy(), residual, np.float32(0.3))
        state = encoded.state
        assert same_bits(feedback.residual(state, layout), torch.from_numpy(residual))


def test_a_word_of_strom_is_the_index_and_a_sign_bit() -> None:
    value = torch.zeros(300)
    value[0], value[1], value[258] = -2.0, 2.0, -2.0
    assert spoken(Threshold(1.0), value) == ["000000800100000002010080"]


def test_gaps_are_unary_then_low_bits_then_signs() -> None:
    value = torch.zeros(20)
    value[3], value[5], value[15] = 2.0, -2.0, -2.0  # gaps of 3, 1 and 9
    # k = 1: 3 is one 2 and 1, 1 is no 2 and 1, 9 is four 2 and 1: 10 0 11110, then 1 1 1, then the signs 0 1 1, and two zeros to fill up
    assert spoken(GapCoded(Threshold(1.0)), value) == ["9eec", "0300000001000000"]
    assert spoken(GapCoded(Threshold(1.0)), torch.zeros(20)) == ["", "0000000000000000"]


@pytest.mark.parametrize("tau", [0.01, 0.5, 2.0, 3.0, 4.5])
def test_gaps_are_lossless_and_near_the_entropy(tau: float) -> None:
    value, layout = normal(1, 100_000), vector(100_000)
    words, gaps = (codec.encode(value, layout, {}, alone()) for codec in (Threshold(tau), GapCoded(Threshold(tau))))
    assert same_bits(words.sent, gaps.sent)
    assert all(
        same_bits(a, b) for a, b in zip(Threshold(tau).entries(words.packet), GapCoded(Threshold(tau)).entries(gaps.packet), strict=True)
    )
    count = words.packet[0].numel()
    share = count / layout.numel
    assert 8 * payload(gaps.packet) <= 2 * layout.numel + 100
    if 0 < share < 0.5:
        bits = -layout.numel * (share * np.log2(share) + (1 - share) * np.log2(1 - share)) + count
        assert 8 * payload(gaps.packet) < 1.12 * bits + 100


def test_an_adaptive_threshold_sends_its_tau_and_goes_dense_above_a_sixteenth() -> None:
    value = torch.zeros(64)
    value[[1, 2, 3, 40]] = torch.tensor([2.0, -2.0, 2.0, -2.0])
    assert spoken(AdaptiveThreshold(1.0), value) == ["01000000020000800300000028000080", "0000803f"]
    value[63] = 2.0
    dense = "3b" + "00" * 9 + "80" + "00" * 4 + "03"  # 00 11 10 11, the fortieth 10, the last 11
    assert spoken(AdaptiveThreshold(1.0), value) == [dense, "0000803f"]


def test_columns_are_bits_then_lower_means_then_upper_ones() -> None:
    assert spoken(OneBit(), ROWS, MATRIX) == ["ae", "000040c0000080bf0000004000002041"]  # -3, -1, 2, 10
    assert spoken(OneBitTensorwise(), ROWS, MATRIX) == ["ae", "555515c09a99d940"]  # -7/3, 34/5


def test_two_bits_are_a_sixteenth_and_one_a_thirty_second() -> None:
    layout, value = vector(1600), normal(0, 1600)
    assert payload(TwoBit(0.5).encode(value, layout, {}, alone()).packet) == 6400 / 16
    assert payload(UnitSigns(0.5).encode(value, layout, {}, alone()).packet) == 6400 / 32
