"""Laws of the states of codecs, and the names that shared refusals give."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from polyrhythm.codec import (
    KKT,
    MEMBERS,
    AdaptiveThreshold,
    ClippedFeedback,
    CosineTopK,
    DecayingFeedback,
    ErrorFeedback,
    Identity,
    KeyList,
    MomentumCorrection,
    RandomK,
    Relative,
    SharedK,
    Significant,
    Threshold,
    TopK,
    TopKWarmup,
    TouchedRows,
)
from polyrhythm.codec.kernels import native, portable
from polyrhythm.codec.sparse.cosine_top_k import _mean
from polyrhythm.codec.sparse.gap_coded import _best_width
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.codec import Codec, PacketCodec, packets
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import LAYOUT, CollectiveClient, alone, normal, same_bits

ONE_SHOT = [packets(codec) for codec in MEMBERS if codec.traits.makes_packets]
HUGE = Layout(("p",), ((2**31 + 1,),))


@pytest.mark.parametrize("codec", ONE_SHOT, ids=str)
def test_what_a_state_has_it_has_after_every_later_value_and_nothing_new_comes_after_the_third(codec: PacketCodec) -> None:
    states = [codec.initial(LAYOUT)]
    for step in range(5):
        states.append(codec.encode(normal(step, LAYOUT.numel), LAYOUT, states[-1], alone(LAYOUT)).state)
    assert all(set(before) <= set(after) for before, after in pairwise(states))
    assert set(states[3]) == set(states[-1])


@pytest.mark.parametrize("codec", MEMBERS, ids=str)
def test_so_it_is_in_aggregation(codec: Codec) -> None:
    client = CollectiveClient(codec, LAYOUT, 2)
    rounds = [client.states]
    for step in range(5):
        client.round([normal(2 * step + rank, LAYOUT.numel) for rank in range(2)])
        rounds.append(client.states)
    for rank in range(2):
        assert all(set(before[rank]) <= set(after[rank]) for before, after in pairwise(rounds))
        assert set(rounds[3][rank]) == set(rounds[-1][rank])


def warmed_up(ratio: float) -> TopKWarmup:
    return TopKWarmup((0.5, ratio), 1)


@pytest.mark.parametrize("make", [TopK, RandomK, SharedK, warmed_up], ids=["TopK", "RandomK", "SharedK", "TopKWarmup"])
def test_a_ratio_that_cannot_be_is_refused_in_the_name_of_the_codec(
    make: Callable[[float], object], request: pytest.FixtureRequest
) -> None:
    for ratio in (0, 1.1):
        with pytest.raises(CompositionError) as refusal:
            make(ratio)
        assert str(refusal.value) == (
            f"{request.node.callspec.id}(ratio={ratio}) sends nothing or more than all: ratio is a part of the elements, "
            "above 0 and at most 1."
        )


INDEXED = (TopK(0.1), RandomK(0.1), Significant(0), Threshold(1.0), AdaptiveThreshold(1.0), KeyList(), TopKWarmup((0.1,), 1))


@pytest.mark.parametrize("codec", INDEXED, ids=str)
def test_too_many_elements_are_refused_in_the_name_of_the_codec(codec: Codec) -> None:
    name = type(codec).__name__
    with pytest.raises(CompositionError) as refusal:
        codec.initial(HUGE)
    assert str(refusal.value) == (
        f"{name} names elements by 31 bits, and 2,147,483,649 elements are more than 2,147,483,648: "
        f"cut the model, with PerTensor({name}(…)) or over several servers."
    )


@pytest.mark.parametrize("feedback", [ErrorFeedback, ClippedFeedback, DecayingFeedback, MomentumCorrection])
def test_a_residual_where_there_is_none_is_refused_in_the_name_of_the_wrapper(feedback: Callable[[Any], object]) -> None:
    with pytest.raises(CompositionError) as refusal:
        feedback(Identity())
    name = feedback.__name__
    assert str(refusal.value) == f"{name}(Identity()) has nothing to feed back: Identity loses nothing. Use it bare."


@pytest.mark.parametrize("given", [(-1.0, 0.1, 20), (float("inf"), 0.1, 20), (0.5, -0.1, 20), (0.5, 1.1, 20), (0.5, 0.1, 0)])
def test_a_filter_that_cannot_judge_is_refused(given: tuple[float, float, int]) -> None:
    with pytest.raises(CompositionError) as refusal:
        KKT(KeyList(), *given)
    penalty, delta, retest = given
    assert str(refusal.value) == (
        f"KKT(inner=KeyList(), penalty={penalty}, delta={delta}, retest={retest}) cannot judge: give a penalty of at least 0, a "
        "delta from 0 to 1, and a number of steps of 1 or more after which all is sent."
    )
    KKT(KeyList(), 0.0, 0.0, 1)
    KKT(KeyList(), 0.0, 1.0)


def test_shares_at_their_bounds_are_taken() -> None:
    assert AdaptiveThreshold(1.0, fewest=0.0, most=1.0).most == 1
    assert (TopK(1), RandomK(1.0).ratio, SharedK(1.0).ratio, Relative(0).decay is not None) == (TopK(1.0), 1, 1, True)


def test_a_warmup_of_one_step_for_each_ratio_changes_at_each_value() -> None:
    codec = TopKWarmup((1.0, 0.5, 0.1), steps=1)
    state, counts = codec.initial(LAYOUT), []
    for step in range(5):
        encoded = codec.encode(normal(step, LAYOUT.numel), LAYOUT, state, alone())
        state = encoded.state
        counts.append(len(encoded.packet[0]))
    assert counts == [61, 31, 7, 7, 7]
    assert state["rounds"] == 5


def test_shared_elements_are_drawn_from_the_seed_of_the_run_and_the_number_of_the_round() -> None:
    def chosen(seed: int, rounds: int) -> torch.Tensor:
        context = alone().changed(group=Group.of_workers(2, 0, seed))
        state = {"rounds": torch.tensor(rounds)}
        request = next(SharedK(0.2).aggregate(torch.arange(1.0, 62.0), LAYOUT, state, context))
        return request.value  # type: ignore[union-attr]

    assert same_bits(chosen(1, 0), chosen(1, 0))
    assert not torch.equal(chosen(1, 0), chosen(2, 0))
    assert not torch.equal(chosen(1, 0), chosen(1, 1))


def test_rows_of_no_matrix_are_numbered_by_whole_numbers_too() -> None:
    layout = Layout(("bias",), ((3,),))
    packet = TouchedRows().encode(torch.ones(3), layout, {}, alone(layout)).packet
    assert [part.dtype for part in packet[:2]] == [torch.int64, torch.int32]


@pytest.mark.parametrize("small", [torch.float16, torch.bfloat16], ids=str)
def test_the_rest_behind_the_last_eight_is_rounded_too(small: torch.dtype) -> None:
    value = normal(0, 2**20 + 9)
    for numel in (2**20 - 1, 2**20, 2**20 + 1, 2**20 + 7, 2**20 + 8, 2**20 + 9):
        for mine, other in zip(native.rounded(value[:numel], small), portable.rounded(value[:numel], small), strict=True):
            assert torch.equal(mine, other)


@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_coded_in_the_width_of_the_fewest_bits(seed: int) -> None:
    gaps = np.random.default_rng(seed).geometric(0.5 ** (seed + 1), 200) - 1
    bits = [int((gaps >> k).sum()) + k * len(gaps) for k in range(20)]
    assert bits[_best_width(gaps)] == min(bits)


def test_a_mean_over_senders_is_over_all_that_sent_the_place() -> None:
    given = [([0, 1], [1.0, 2.0]), ([1, 2], [4.0, 5.0]), ([1, 0], [6.0, 7.0])]
    sent = [(torch.tensor([places]), torch.tensor([values])) for places, values in given]
    assert _mean(sent, 4).tolist() == [[4, 4, 5, 0]]
    assert _mean(sent[:2], 4).tolist() == [[1, 3, 5, 0]]
    assert _mean(sent[:1], 4).tolist() == [[1, 2, 0, 0]]


@pytest.mark.parametrize("chunk", [2, 3, 4])
def test_all_coefficients_of_cosines_give_each_value_its_place_again(chunk: int) -> None:
    layout, value = Layout(("w",), ((6, 4),)), normal(0, 24)
    torch.testing.assert_close(CosineTopK(16, chunk).encode(value, layout, {}, alone(layout)).sent, value)
