import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.stripes import Assembly, can_be_cut, cut
from polyrhythm.core.processes.transport.wire import CONTROL, STRIPE, STRIPED, Limits, Stripe, encode, encode_stripe, encode_striped
from polyrhythm.errors import WireError

tensors = st.builds(
    lambda size, dtype: torch.arange(size).to(dtype),
    st.integers(0, 50),
    st.sampled_from([torch.float32, torch.float16, torch.int64, torch.uint8]),
)


def read(decoder: Decoder, *parts: bytes | memoryview) -> list[int]:
    """The flags of the frames in `parts`."""
    return [frame.flags for frame in decoder.feed(b"".join(parts))]


def decoder_of(assembly: Assembly) -> Decoder:
    decoder = Decoder()
    decoder.board = assembly
    return decoder


@given(st.lists(st.lists(tensors, min_size=1, max_size=4), min_size=1, max_size=3), st.integers(1, 80), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_messages_are_whole_whatever_the_order_of_stripes_and_frames(given: list[list[torch.Tensor]], size: int, seed: int) -> None:
    messages = [Message("t", tensors=tuple(group)) for group in given]
    messages = [message for message in messages if can_be_cut(message) and any(tensor.numel() for tensor in message.tensors)]
    assembly, order = Assembly(), random.Random(seed)
    main, lane = decoder_of(assembly), decoder_of(assembly)
    pieces = [b"".join(stripe) for number, message in enumerate(messages) for stripe in cut(message, number, size)]
    order.shuffle(pieces)
    heads = [encode_striped(message, number, Limits()) for number, message in enumerate(messages)]
    found: list[Message] = []
    whole = 0
    while heads or pieces:
        if heads and (not pieces or order.random() < 0.3):
            found += [frame.message for frame in main.feed(heads.pop(0))]
        else:
            assert read(lane, pieces.pop()) == [STRIPE]
        while whole < len(found) and assembly.release():
            whole += 1
    assert whole == len(messages)
    for sent, got in zip(messages, found, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(sent.tensors, got.tensors, strict=True))


def test_a_payload_is_not_copied_on_the_way_out_and_its_frame_is_as_long_as_computed() -> None:
    tensor = torch.zeros(10)
    message = Message("t", tensors=(tensor,))
    stripes = list(cut(message, 0, 16))
    tensor[9] = 1.0
    assert [sum(map(len, views)) for _, *views in stripes] == [16, 16, 8]
    assert bytes(stripes[-1][-1])[-4:] == b"\x00\x00\x80\x3f"
    assert len(encode_striped(message, 0, Limits())) == wire_bytes(message) - 40 + 8


def test_tensors_that_would_lie_askew_are_not_cut_and_not_taken() -> None:
    askew = Message("t", tensors=(torch.ones(3, dtype=torch.uint8), torch.ones(2)))
    assert not can_be_cut(askew)
    assert can_be_cut(Message("t", tensors=(torch.ones(2), torch.ones(3, dtype=torch.uint8), torch.ones(0))))
    with pytest.raises(WireError, match="multiple"):
        read(decoder_of(Assembly()), encode_striped(askew, 0, Limits()))


HEAD = encode_striped(Message("t", tensors=(torch.ones(10),)), 0, Limits())


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([(Stripe(0, 0, 40), 16), (Stripe(0, 0, 40), 16)], "lies over another"),
        ([(Stripe(0, 8, 40), 16), (Stripe(0, 0, 40), 16)], "lies over another"),
        ([(Stripe(0, 0, 40), 16), (Stripe(0, 15, 40), 16)], "lies over another"),
        ([(Stripe(0, 32, 40), 16)], "over the end"),
        ([(Stripe(0, 1 << 63, 40), 16)], "over the end"),
        ([(Stripe(0, 0, 40), 16), (Stripe(0, 16, 44), 16)], "40 bytes of payload by one frame and 44"),
        ([(Stripe(1 << 40, 0, 40), 16)], "far from being sent"),
    ],
)
def test_a_stripe_that_does_not_fit_is_malformed(parts: list[tuple[Stripe, int]], complaint: str) -> None:
    decoder = decoder_of(Assembly())
    with pytest.raises(WireError, match=complaint):
        read(decoder, *(encode_stripe(stripe, length) + bytes(length) for stripe, length in parts))
    assert decoder.tally.rejected == 1


def test_a_stripe_of_a_message_that_is_whole_is_malformed() -> None:
    assembly = Assembly()
    decoder = decoder_of(assembly)
    assert read(decoder, HEAD, encode_stripe(Stripe(0, 0, 40), 40), bytes(40)) == [STRIPED, STRIPE]
    assert assembly.release()
    with pytest.raises(WireError, match="which is whole"):
        read(decoder, encode_stripe(Stripe(0, 0, 40), 40), bytes(40))


def test_frames_out_of_turn_and_of_other_sizes_than_their_stripes_are_malformed() -> None:
    with pytest.raises(WireError, match="striped message 1 of 4 bytes; the next number is 0"):
        read(decoder_of(Assembly()), encode_striped(Message("t", tensors=(torch.ones(1),)), 1, Limits()))
    with pytest.raises(WireError, match="of 0 bytes"):
        read(decoder_of(Assembly()), encode_striped(Message("t"), 0, Limits()))
    with pytest.raises(WireError, match="44 bytes of payload by one frame and 40 by another"):
        read(decoder_of(Assembly()), encode_stripe(Stripe(0, 0, 44), 4), bytes(4), HEAD)


def test_a_stripe_that_is_empty_or_has_a_topic_or_two_natures_is_malformed() -> None:
    for frame in (
        encode_stripe(Stripe(0, 0, 40), 0),
        b"".join(map(bytes, encode(Message("t", tensors=(torch.ones(1),)), STRIPE))),
        b"".join(map(bytes, encode(Message("", tensors=()), STRIPE | CONTROL))),
        b"".join(map(bytes, encode(Message("t"), STRIPE | STRIPED))),
    ):
        with pytest.raises(WireError):
            read(decoder_of(Assembly()), frame)


def test_a_truth_value_of_two_in_a_stripe_is_malformed() -> None:
    assembly = Assembly()
    message = Message("t", tensors=(torch.ones(3, dtype=torch.bool),))
    read(decoder_of(assembly), encode_striped(message, 0, Limits()), encode_stripe(Stripe(0, 0, 3), 3), b"\x01\x02\x01")
    with pytest.raises(WireError, match="truth value"):
        assembly.release()
