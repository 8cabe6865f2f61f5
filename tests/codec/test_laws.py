"""What every codec promises, over the list of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyrhythm.codec import (
    MEMBERS,
    Cast,
    ClippedFeedback,
    DecayingFeedback,
    ErrorFeedback,
    Identity,
    LowRank,
    MomentumCorrection,
    OneBit,
    RandomK,
    Relative,
    Significant,
    TopK,
)
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.processes.transport.wire import encode
from polyrhythm.core.protocols.codec import Codec, PacketCodec, packets
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import LAYOUT, CollectiveClient, alone, check_for_the_wire, normal, same_bits, total
from .layouts import layouts, seeds

ONE_SHOT = [packets(codec) for codec in MEMBERS if codec.traits.makes_packets]
KEEPING = [codec for codec in MEMBERS if not codec.traits.lossy and not codec.traits.transforms]
EVERYTHING = (TopK(1.0), RandomK(1.0), Significant(0), Relative(0), LowRank(100))
CHOOSING_BY_SIZE = (TopK(0.1), Significant(0.5), Relative(0.5), Cast(torch.float16), OneBit(), LowRank(1))  # chance may not pick it
FLOATS = (torch.float32, torch.float64)

every_codec = pytest.mark.parametrize("codec", MEMBERS, ids=str)
every_one_shot = pytest.mark.parametrize("codec", ONE_SHOT, ids=str)
brief = settings(max_examples=8, deadline=None)


def rounding(codec: Any, dtype: torch.dtype) -> float:
    """The relative rounding of sums: Cast makes them in its own type, and declares it."""
    kinds, left = [], [codec]
    while left:
        piece = left.pop()
        kinds += [torch.finfo(piece.dtype).eps] if type(piece) is Cast else []
        left += [getattr(piece, name) for name in ("inner", "rest") if name in type(piece).__dataclass_fields__]
    return max(kinds, default=2e-6 if dtype == torch.float32 else 1e-12)


def close(left: Tensor, right: Tensor, relative: float, scale: Tensor) -> bool:
    """Whether two sums agree as far as `relative` of the magnitudes `scale` that went into them, and of the largest of them."""
    return bool(((left.double() - right.double()).abs() <= relative * (scale.double() + scale.double().max())).all()) if len(left) else True


@every_one_shot
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@brief
@given(layout=layouts, seed=seeds)
def test_a_packet_says_to_every_receiver_what_its_sender_said(codec: PacketCodec, dtype: torch.dtype, layout: Layout, seed: int) -> None:
    state, context = codec.initial(layout), alone(layout)
    for step in range(4):
        encoded = codec.encode(normal(seed + step, layout.numel, dtype), layout, state, context)
        state = encoded.state
        assert encoded.sent.shape == (layout.numel,)
        assert len(encoded.packet) == codec.width
        check_for_the_wire(encoded.packet)
        decoded = codec.decode(encoded.packet, layout)
        assert same_bits(decoded, encoded.sent)
        assert decoded.dtype == dtype or not layout.numel


@pytest.mark.parametrize("codec", [codec for codec in ONE_SHOT if codec in KEEPING], ids=str)
def test_what_is_sent_whole_or_not_at_all_loses_not_a_bit(codec: PacketCodec) -> None:
    state, context = codec.initial(LAYOUT), alone(LAYOUT)
    for step in range(6):
        value = normal(step, LAYOUT.numel)
        given = value + codec.residual(state, LAYOUT)
        encoded = codec.encode(value, LAYOUT, state, context)
        state = encoded.state
        whole = (encoded.sent == 0) | (encoded.sent == given)
        assert same_bits((encoded.sent + codec.residual(state, LAYOUT))[whole], given[whole])


@every_codec
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@brief
@given(layout=layouts, seed=seeds, workers=st.integers(1, 5))
def test_all_are_told_the_same_total_and_it_is_the_sum_of_what_all_said_or_a_mean_of_it(
    codec: Codec, dtype: torch.dtype, layout: Layout, seed: int, workers: int
) -> None:
    client = CollectiveClient(codec, layout, workers)
    for step in range(4):
        told = client.round([normal(seed + 100 * step + rank, layout.numel, dtype) for rank in range(workers)])
        assert all(same_bits(one.total, told[0].total) for one in told)
        assert told[0].total.shape == (layout.numel,)
        assert all(one.total.dtype == one.sent.dtype == dtype for one in told) or not layout.numel
        scale, said = total([one.sent.abs() for one in told]), total([one.sent for one in told])
        if not codec.traits.divides:
            assert close(told[0].total, said, workers * rounding(codec, dtype), scale)
        else:  # along each component that all have sent, or one alone, the sum or a part of it
            assert told[0].total.norm() <= (1 + 1e-5) * total([one.sent.norm() for one in told])


@pytest.mark.parametrize("codec", KEEPING, ids=str)
@pytest.mark.parametrize("workers", [1, 2, 3, 20])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_over_many_rounds_nothing_is_lost_in_conversation(codec: Codec, workers: int, dtype: torch.dtype) -> None:
    client, rounds = CollectiveClient(codec, LAYOUT, workers), 5
    values = [[normal(100 * step + rank, LAYOUT.numel, dtype) for rank in range(workers)] for step in range(rounds)]
    told = total([client.round(row)[0].total for row in values])
    produced, scale = total([total(row) for row in values]), total([total([value.abs() for value in row]) for row in values])
    assert close(told + client.residual(), produced, rounds * rounding(codec, dtype), scale)


@every_codec
def test_verbatim_is_what_asks_for_the_sum_of_the_values_and_of_nothing_else(codec: Codec) -> None:
    assert codec.traits.verbatim is _asks_for_the_sum_alone(codec)


def _asks_for_the_sum_alone(codec: Codec) -> bool:
    value, response, state = normal(1, LAYOUT.numel), normal(2, LAYOUT.numel), codec.initial(LAYOUT)
    aggregation = codec.aggregate(value, LAYOUT, state, alone(LAYOUT))
    question = next(aggregation)
    if state or not isinstance(question, AllReduceRequest) or question.value is not value:
        return False
    try:
        aggregation.send(response)
    except StopIteration as end:
        return end.value.total is response and not end.value.state
    return False


@pytest.mark.parametrize("codec", EVERYTHING, ids=str)
@brief
@given(layout=layouts, seed=seeds, workers=st.integers(1, 4))
def test_a_codec_that_says_everything_is_identity(codec: Codec, layout: Layout, seed: int, workers: int) -> None:
    values = [normal(seed + rank, layout.numel) for rank in range(workers)]
    for value in values:
        value[::3] = -0.0
    mine = CollectiveClient(codec, layout, workers).round(values)
    plain = CollectiveClient(Identity(), layout, workers).round(values)
    assert same_bits(mine[0].total, plain[0].total)
    assert all(same_bits(one.sent, other.sent) for one, other in zip(mine, plain, strict=True))


@every_one_shot
def test_declared_bytes_are_serialized_bytes(codec: PacketCodec) -> None:
    packet = codec.encode(normal(3, LAYOUT.numel), LAYOUT, codec.initial(LAYOUT), alone(LAYOUT)).packet
    message = Message("topic", (1.0,), tensors=packet)
    assert wire_bytes(message) == sum(len(part) for part in encode(message))


@every_codec
def test_empty_layouts_are_said_too(codec: Codec) -> None:
    for layout in (Layout((), ()), Layout(("p",), ((0,),)), Layout(("p", "q"), ((0, 4), (3, 0)))):
        client = CollectiveClient(codec, layout, 3)
        for _ in range(3):
            told = client.round([torch.zeros(0)] * 3)
            assert told[0].total.shape == told[0].sent.shape == client.residual().shape == (0,)
        if codec in ONE_SHOT:
            encoded = codec.encode(torch.zeros(0), layout, codec.initial(layout), alone(layout))
            assert codec.decode(encoded.packet, layout).shape == (0,)


@every_codec
def test_state_goes_in_and_comes_out_and_is_never_changed(codec: Codec) -> None:
    client = CollectiveClient(codec, LAYOUT, 2)
    for step in range(3):
        values = [normal(step + rank, LAYOUT.numel) for rank in range(2)]
        kept = [{name: tensor.clone() for name, tensor in state.items()} for state in client.states]
        given = [value.clone() for value in values]
        states = client.states
        client.round(values)
        assert all(torch.equal(value, other) for value, other in zip(values, given, strict=True))
        for state, before in zip(states, kept, strict=True):
            assert state.keys() == before.keys()
            assert all(torch.equal(state[name], before[name]) for name in before)


@pytest.mark.parametrize("codec", [*KEEPING, *CHOOSING_BY_SIZE], ids=str)
def test_a_value_that_is_not_a_number_is_sent_or_kept_and_never_hidden(codec: Codec) -> None:
    value = normal(0, LAYOUT.numel)
    value[0] = torch.nan
    client = CollectiveClient(codec, LAYOUT, 2)
    assert client.round([value, value])[0].total.isnan().any() or client.residual().isnan().any()


@every_codec
def test_a_codec_is_a_frozen_value(codec: Codec) -> None:
    names = [field.name for field in fields(codec)]  # type: ignore[arg-type]
    assert codec == codec.__class__(**{name: getattr(codec, name) for name in names})
    assert hash(codec) == hash(codec)


@pytest.mark.parametrize("codec", [codec for codec in ONE_SHOT if codec.traits.unbiased], ids=str)
def test_what_an_unbiased_codec_loses_is_nothing_on_average(codec: PacketCodec) -> None:
    value, context, draws = normal(0, LAYOUT.numel), alone(LAYOUT), 400
    sent = torch.stack([codec.encode(value, LAYOUT, codec.initial(LAYOUT), context).sent for _ in range(draws)])
    error = sent.std(dim=0).max() / draws**0.5  # the largest: elements that were never drawn have none of their own
    assert (sent.mean(dim=0) - value).abs().max() <= 5 * error


FEEDBACKS = [ErrorFeedback, ClippedFeedback, MomentumCorrection, DecayingFeedback]


@pytest.mark.parametrize("codec", [codec for codec in MEMBERS if codec.traits.keeps], ids=str)
@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_what_is_not_sent_is_kept_once(feedback: Callable[[Codec], Codec], codec: Codec) -> None:
    with pytest.raises(CompositionError, match=r"would keep what is not sent twice"):
        feedback(codec)


@pytest.mark.parametrize("codec", [codec for codec in MEMBERS if codec.traits.makes_packets and not codec.traits.keeps], ids=str)
def test_a_codec_that_says_that_it_keeps_nothing_keeps_nothing(codec: Codec) -> None:
    state = packets(codec).encode(normal(0, LAYOUT.numel), LAYOUT, codec.initial(LAYOUT), alone(LAYOUT)).state
    assert not codec.residual(state, LAYOUT).any()


@pytest.mark.parametrize("codec", [codec for codec in MEMBERS if codec.traits.transforms], ids=str)
def test_what_is_made_of_the_values_is_no_error_to_be_fed_back(codec: Codec) -> None:
    with pytest.raises(CompositionError, match=r"nothing to feed back|to the codec inside of it|would keep what is not sent twice"):
        ErrorFeedback(codec)
