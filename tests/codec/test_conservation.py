"""What every codec sends, keeps and loses adds up to what it was given: in packets, and in aggregations of several workers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from polyrhythm.codec import KKT, MEMBERS, AdaptiveThreshold, ClippedFeedback, FeatureBlocks, KeyList, RandomSkip, Threshold, TopK
from polyrhythm.core.protocols.codec import Codec, PacketCodec, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.tensors import Layout, State

from .aggregation import LAYOUT, CollectiveClient, alone, normal
from .conservation import LAWS, check, law_of, nothing_is_kept, nothing_is_lost, steps_of
from .layouts import layouts, seeds

FLOATS = (torch.float32, torch.float64)
ROUNDING = {torch.float32: 1e-5, torch.float64: 1e-11}
ONE_SHOT = [packets(codec) for codec in MEMBERS if codec.traits.makes_packets]
every_one_shot = pytest.mark.parametrize("codec", ONE_SHOT, ids=str)
every_codec = pytest.mark.parametrize("codec", MEMBERS, ids=str)
brief = settings(max_examples=8, deadline=None)


def sparse_weights(seed: int, numel: int) -> Tensor:
    """Normal weights, of which about half are zero: filters look at those."""
    return normal(seed, numel) * (normal(seed + 1, numel) > 0)


def encoded(codec: PacketCodec, layout: Layout, seed: int, dtype: torch.dtype, steps: int = 5) -> State:
    """The state after `steps` packets, of which each obeys the law."""
    state, context = codec.initial(layout), alone(layout)
    for clock in range(1, steps + 1):
        value = normal(seed + clock, layout.numel, dtype)
        now = context.at(clock, lambda: sparse_weights(seed, layout.numel))
        one = codec.encode(value, layout, state, now)
        for step in steps_of([value], layout, [state], [one], [now], ROUNDING[dtype]):
            check(codec, step)
        state = one.state
    return state


@every_one_shot
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@brief
@given(layout=layouts, seed=seeds)
def test_what_is_sent_kept_and_lost_in_packets_is_what_was_given(codec: PacketCodec, dtype: torch.dtype, layout: Layout, seed: int) -> None:
    encoded(codec, layout, seed, dtype)


@every_codec
@pytest.mark.parametrize("workers", [1, 3])
def test_each_worker_keeps_its_own_account_in_aggregations(codec: Codec, workers: int) -> None:
    client = CollectiveClient(codec, LAYOUT, workers, weights=sparse_weights)
    client.contexts = [context.changed(rates=lambda: (0.25,)) for context in client.contexts]
    for number in range(5):
        values = [normal(10 * number + rank, LAYOUT.numel) for rank in range(workers)]
        before = client.states
        told = client.round(values)
        contexts: list[ExchangeContext] = [client.at_this_clock(context) for context in client.contexts]
        for step in steps_of(values, LAYOUT, before, told, contexts, ROUNDING[torch.float32]):
            check(codec, step)


COUNTING = {
    ClippedFeedback(AdaptiveThreshold(0.5), quanta=1.0, every=2): "clipped",
    ClippedFeedback(Threshold(0.25), quanta=1.0, every=1): "clipped",
    KKT(KeyList(), 0.5, retest=3): "dropped",
    FeatureBlocks(KKT(KeyList(), 0.5, retest=3), 3): "dropped",
    RandomSkip(KeyList(), 0.5): "dropped",
}


@pytest.mark.parametrize("codec", COUNTING, ids=str)
def test_the_laws_of_losses_are_checked_where_something_is_lost(codec: PacketCodec) -> None:
    state = encoded(codec, LAYOUT, 0, torch.float32, steps=9)
    counts = [tensor for name, tensor in state.items() if name.rpartition("/")[2] == COUNTING[codec]]
    assert sum(float(count.sum()) for count in counts) > 0


def test_every_law_is_that_of_a_member_and_a_codec_that_keeps_something_has_one() -> None:
    laws = {law_of(codec) for codec in MEMBERS}
    assert {nothing_is_lost, nothing_is_kept} <= laws
    assert set(LAWS) <= {type(codec) for codec in MEMBERS}
    assert not [codec for codec in MEMBERS if codec.traits.keeps and law_of(codec) is nothing_is_kept]
    assert law_of(TopK(0.1)) is nothing_is_kept
