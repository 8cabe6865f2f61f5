"""Warmup, PerTensor, Striped and ErrorFeedback around other codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from polyrhythm.codec import (
    KKT,
    AveragedMomentum,
    Cast,
    Clipped,
    CosineTopK,
    DecayingFeedback,
    ErrorFeedback,
    FeatureBlocks,
    Identity,
    LocalMomentum,
    LowRank,
    MaxN,
    MomentumCorrection,
    OneBit,
    PerTensor,
    RandomSkip,
    Ranges,
    RateScaled,
    SenderMean,
    Striped,
    Threshold,
    TopK,
    Warmup,
)
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.requests import AllGatherRequest, AllReduceRequest, AllToAllRequest
from polyrhythm.core.tensors import Layout

from .aggregation import LAYOUT, CollectiveClient, alone, normal, payload, same_bits, total


def test_a_warmup_sends_the_first_values_in_full_and_then_as_the_inner_codec() -> None:
    codec = Warmup(2, ErrorFeedback(TopK(0.1)))
    state = codec.initial(LAYOUT)
    for step in range(4):
        value = normal(step, LAYOUT.numel)
        encoded = codec.encode(value, LAYOUT, state, alone())
        state = encoded.state
        assert int(encoded.packet[0]) == (step >= 2)
        assert same_bits(encoded.sent, value) == (step < 2)
        assert payload(encoded.packet) == 1 + (4 * LAYOUT.numel if step < 2 else 8 * 7)
    assert int(state["rounds"]) == 4


def test_a_warmup_converses_densely_and_then_as_the_inner_codec() -> None:
    client = CollectiveClient(Warmup(1, Striped(ErrorFeedback(OneBit()))), LAYOUT, 2)
    for _ in range(2):
        client.round([normal(rank, LAYOUT.numel) for rank in range(2)])
    assert client.questions == [AllReduceRequest, AllToAllRequest, AllGatherRequest]


def test_error_feedback_around_a_warmup_owes_nothing_before_its_end() -> None:
    codec = ErrorFeedback(Warmup(1, Threshold(0.5)))
    first = codec.encode(normal(0, LAYOUT.numel), LAYOUT, codec.initial(LAYOUT), alone())
    second = codec.encode(normal(1, LAYOUT.numel), LAYOUT, first.state, alone())
    assert not codec.residual(first.state, LAYOUT).any()
    assert codec.residual(second.state, LAYOUT).any()


def test_per_tensor_leaves_vectors_alone_and_gives_each_matrix_its_own_words() -> None:
    value = normal(0, LAYOUT.numel)
    sent = LAYOUT.named(PerTensor(TopK(0.1)).encode(value, LAYOUT, {}, alone()).sent)
    given = LAYOUT.named(value)
    assert torch.equal(sent["a.bias"], given["a.bias"])
    assert torch.equal(sent["scale"], given["scale"])
    assert [int(sent[name].count_nonzero()) for name in ("a.weight", "b.weight")] == [3, 3]


def test_per_tensor_sends_small_matrices_by_the_other_codec() -> None:
    codec = PerTensor(TopK(0.1), rest=Cast(torch.float16), smallest=25)
    value = normal(0, LAYOUT.numel)
    sent = LAYOUT.named(codec.encode(value, LAYOUT, {}, alone()).sent)
    assert int(sent["a.weight"].count_nonzero()) == 3
    assert torch.equal(sent["b.weight"], LAYOUT.named(value)["b.weight"].half().float())


def test_per_tensor_keeps_a_state_for_each_tensor_under_its_name() -> None:
    codec = PerTensor(ErrorFeedback(OneBit()))
    assert sorted(codec.initial(LAYOUT)) == ["a.weight/residual", "b.weight/residual"]


def test_per_tensor_makes_one_request_of_each_kind_at_a_time() -> None:
    mixed = CollectiveClient(PerTensor(OneBit()), LAYOUT, 3)
    mixed.round([normal(rank, LAYOUT.numel) for rank in range(3)])
    assert mixed.questions == [AllReduceRequest, AllGatherRequest]
    twice = CollectiveClient(PerTensor(Striped(OneBit()), rest=Striped(Identity())), LAYOUT, 3)
    twice.round([normal(rank, LAYOUT.numel) for rank in range(3)])
    assert twice.questions == [AllToAllRequest, AllGatherRequest]


def test_low_rank_by_tensor_sends_what_low_rank_sends() -> None:
    values = [normal(rank, LAYOUT.numel) for rank in range(3)]
    single, whole = CollectiveClient(PerTensor(LowRank(1)), LAYOUT, 3), CollectiveClient(LowRank(1), LAYOUT, 3)
    for _ in range(2):
        torch.testing.assert_close(single.round(values)[0].total, whole.round(values)[0].total)
    assert single.questions == whole.questions == [AllReduceRequest, AllReduceRequest] * 2


def test_names_with_a_slash_keep_their_states_apart() -> None:
    layout = Layout(("block/0.w", "block.w", "block/0"), ((3, 4), (2, 5), (2, 2)))
    codec = PerTensor(ErrorFeedback(TopK(0.2)))
    state = codec.initial(layout)
    for step in range(3):
        value = normal(step, layout.numel)
        given = value + codec.residual(state, layout)
        encoded = codec.encode(value, layout, state, alone())
        state = encoded.state
        assert same_bits(encoded.sent + codec.residual(state, layout), given)


def test_striped_owes_the_second_rounding_to_the_owner_of_the_stripe() -> None:
    client = CollectiveClient(Striped(ErrorFeedback(OneBit())), LAYOUT, 3)
    aggregated = client.round([normal(rank, LAYOUT.numel) for rank in range(3)])
    torch.testing.assert_close(total([one.sent for one in aggregated]), aggregated[0].total)
    assert {"stripes", "out/0/residual", "out/2/residual", "back/1/residual"} <= client.states[1].keys()
    assert "back/0/residual" not in client.states[1]


def test_error_feedback_around_stripes_keeps_what_the_way_back_loses() -> None:
    client = CollectiveClient(ErrorFeedback(Striped(TopK(0.3))), LAYOUT, 3)
    values = [[normal(10 * step + rank, LAYOUT.numel) for rank in range(3)] for step in range(5)]
    aggregated = total([client.round(row)[0].total for row in values])
    torch.testing.assert_close(aggregated + client.residual(), total([total(row) for row in values]), rtol=1e-5, atol=1e-5)


def test_a_residual_has_the_type_of_the_values() -> None:
    codec = ErrorFeedback(TopK(0.1))
    encoded = codec.encode(normal(0, LAYOUT.numel, torch.float64), LAYOUT, codec.initial(LAYOUT), alone())
    assert encoded.state["residual"].dtype == encoded.sent.dtype == torch.float64


WRAPPERS: tuple[Callable[[Any], Codec], ...] = (
    *(lambda inner: KKT(inner, 0.5), lambda inner: RandomSkip(inner, 0.5), lambda inner: FeatureBlocks(inner, 3)),
    *(lambda inner: PerTensor(inner), lambda inner: PerTensor(Identity(), rest=inner), lambda inner: Warmup(1, inner), Striped),
    *(lambda inner: Clipped(1.0, inner), RateScaled, lambda inner: LocalMomentum(0.9, inner)),
    lambda inner: AveragedMomentum(0.9, 1, inner),
)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_wrapper_takes_what_a_controller_sets_in_its_inner_codec_and_declares_what_that_keeps(wrap: Callable[[Any], Codec]) -> None:
    traits = wrap(Ranges(3)).traits
    assert traits.takes == {ControlledSetting.RANGES}
    assert traits.keeps
    assert not wrap(Identity()).traits.keeps


@pytest.mark.parametrize("feedback", [ErrorFeedback, DecayingFeedback, MomentumCorrection])
def test_an_error_feedback_takes_what_its_inner_codec_takes(feedback: Callable[[Codec], Codec]) -> None:
    assert feedback(MaxN(10)).traits.takes == {ControlledSetting.NBYTES}


def test_the_bytes_of_a_packet_cannot_be_set_where_each_tensor_would_take_as_many() -> None:
    assert not PerTensor(MaxN(10)).traits.takes


@pytest.mark.parametrize("wrap", [ErrorFeedback, PerTensor])
def test_a_mean_over_the_senders_is_no_sum_inside_of_a_wrapper_either(wrap: Callable[[Codec], Codec]) -> None:
    assert wrap(SenderMean(CosineTopK(2))).traits.divides


def test_a_filter_of_a_momentum_sends_no_values_either() -> None:
    for wrap in WRAPPERS[:3]:
        assert wrap(LocalMomentum(0.9, Identity())).traits.transforms
