import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.kernel.message import DTYPES, Message, wire_bytes
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.stripes import Assembly, cut
from polyrhythm.core.processes.transport.wire import CONTROL, STRIPE, STRIPED, VERSION, Limits, Tally, encode, encode_striped
from polyrhythm.errors import WireError

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
tensors = st.builds(
    lambda shape, dtype: (torch.arange(1000)[: _numel(shape)] % 2).reshape(shape).to(dtype), shapes, st.sampled_from(DTYPES)
)
messages = st.builds(
    Message,
    st.text(max_size=40),
    st.lists(st.floats(allow_nan=False), max_size=5).map(tuple),
    st.text(max_size=100),
    st.lists(tensors, max_size=4).map(tuple),
)


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def whole(message: Message, flags: int = 0) -> bytes:
    return b"".join(bytes(buffer) for buffer in encode(message, flags))


def same(one: Message, other: Message) -> bool:
    return (
        (one.topic, one.numbers, one.text) == (other.topic, other.numbers, other.text)
        and [t.dtype for t in one.tensors] == [t.dtype for t in other.tensors]
        and len(one.tensors) == len(other.tensors)
        and all(torch.equal(a, b) for a, b in zip(one.tensors, other.tensors, strict=True))
    )


@given(messages)
@settings(max_examples=200, deadline=None)
def test_a_frame_is_as_long_as_wire_bytes_computes_and_decodes_to_the_same_message(message: Message) -> None:
    data = whole(message)
    assert len(data) == wire_bytes(message)
    (frame,) = Decoder().feed(data)
    assert frame.flags == 0
    assert same(frame.message, message)


@given(st.lists(messages, min_size=1, max_size=4), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_frames_come_out_the_same_however_the_stream_is_cut(several: list[Message], size: int) -> None:
    data = b"".join(whole(message) for message in several)
    decoder = Decoder()
    frames = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    decoder.finish()
    assert len(frames) == len(several)
    assert all(same(frame.message, message) for frame, message in zip(frames, several, strict=True))


def test_the_memory_of_tensors_is_not_copied_on_the_way_out() -> None:
    tensor = torch.zeros(4)
    _, buffer = encode(Message("t", tensors=(tensor,)))
    tensor[0] = 1.0
    assert bytes(buffer)[:4] == b"\x00\x00\x80\x3f"


def test_payload_can_be_received_straight_into_its_tensor() -> None:
    message = Message("t", tensors=(torch.arange(5.0), torch.ones(3, dtype=torch.bool)))
    data, decoder, frames = memoryview(whole(message)), Decoder(), []
    while len(data):
        space = decoder.space()
        space[:] = data[: len(space)]
        data = data[len(space) :]
        frames += decoder.advance(len(space))
    assert same(frames[0].message, message)


@pytest.mark.parametrize(
    "message",
    [
        Message("t" * 201),
        Message("t", text="x" * (4 * 1024 * 1024 + 1)),
        Message("t", (0.0,) * 4097),
        Message("t", tensors=(torch.zeros(0),) * 4097),
        Message("t", tensors=(torch.zeros((1,) * 9),)),
        Message("t", tensors=(torch.zeros(2, dtype=torch.complex64),)),
    ],
)
def test_what_cannot_be_encoded_is_refused_before_it_is_sent(message: Message) -> None:
    with pytest.raises(WireError):
        encode(message)


def test_a_payload_over_the_limit_is_refused_at_both_ends() -> None:
    message = Message("t", tensors=(torch.zeros(100),))
    with pytest.raises(WireError, match="400 bytes of payload"):
        encode(message, 0, Limits(payload=399))
    with pytest.raises(WireError, match="400 bytes of payload"):
        list(Decoder(Limits(payload=399)).feed(whole(message)))


def test_limits_may_change_between_two_frames_of_one_read() -> None:
    decoder = Decoder(Limits(tensors=0))
    seen = []
    for frame in decoder.feed(whole(Message("hello"), CONTROL) + whole(Message("t", tensors=(torch.ones(1),)))):
        decoder.limits = Limits()
        seen.append(frame.message.topic)
    assert seen == ["hello", "t"]


def test_another_version_is_refused_with_what_to_do() -> None:
    data = bytearray(whole(Message("t")))
    data[2] = 9
    with pytest.raises(WireError, match=f"has wire version 9, and this is {VERSION}: install the same Polyrhythm everywhere"):
        list(Decoder().feed(bytes(data)))


def test_a_truth_value_of_two_is_malformed() -> None:
    data = bytearray(whole(Message("t", tensors=(torch.ones(1, dtype=torch.bool),))))
    data[-1] = 2
    with pytest.raises(WireError, match="truth value"):
        list(Decoder().feed(bytes(data)))


def test_a_pointer_to_shared_memory_is_malformed_where_there_is_none() -> None:
    with pytest.raises(WireError, match="flags"):
        list(Decoder().feed(whole(Message("t"), flags=2)))


def test_stripes_are_malformed_where_nothing_puts_them_together() -> None:
    for flags in (STRIPED, STRIPE):
        with pytest.raises(WireError, match="flags"):
            list(Decoder().feed(whole(Message("t"), flags)))


def test_a_stripe_of_more_than_the_limit_is_refused_before_its_memory_is_allocated() -> None:
    message = Message("t", tensors=(torch.zeros(100),))
    decoder = Decoder(Limits(payload=399))
    decoder.board = Assembly()
    (stripe,) = cut(message, 0, 400)
    with pytest.raises(WireError, match="400 bytes of payload"):
        list(decoder.feed(b"".join(stripe)))
    assert decoder.tally.rejected == 1


def test_a_stream_that_ends_within_a_frame_is_counted() -> None:
    tally = Tally()
    decoder = Decoder(tally=tally)
    assert list(decoder.feed(whole(Message("topic"))[:-1])) == []
    with pytest.raises(WireError, match="middle"):
        decoder.finish()
    assert tally.rejected == 1


def _mutated(seed: random.Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    match seed.randrange(5):
        case 0:
            data[seed.randrange(len(data))] ^= 1 << seed.randrange(8)
        case 1:
            data[seed.randrange(min(60, len(data)))] = seed.choice((0, 1, 0x7F, 0x80, 0xFF))
        case 2:
            del data[seed.randrange(len(data)) :]
        case 3:
            at = seed.randrange(len(data))
            data[at:at] = seed.randbytes(seed.randrange(1, 9))
        case _:
            at = seed.randrange(24)
            data[at : at + 8] = seed.randbytes(8)
    return bytes(data)


def test_a_hundred_thousand_mutated_frames_are_decoded_or_counted_and_none_does_harm() -> None:
    seed = random.Random(20)
    striped = Message("push", (1.0,), "", (torch.arange(9.0), torch.ones(4, dtype=torch.bool)))
    good = [
        whole(Message("push")),
        whole(Message("push", (1.0, 2.0), "text", (torch.arange(6.0).reshape(2, 3),))),
        whole(Message("é", (3.0,), "", (torch.ones(4, dtype=torch.bool), torch.zeros((0, 3)), torch.tensor(7)))),
        whole(Message("hello", text="worker/1"), CONTROL),
        encode_striped(striped, 0, Limits()),
        *(b"".join(stripe) for stripe in cut(striped, 0, 16)),
    ]
    tally, intact = Tally(), 0
    for _ in range(100_000):
        decoder = Decoder(tally=tally)
        decoder.board = Assembly()
        try:
            frames = list(decoder.feed(_mutated(seed, seed.choice(good))))
            decoder.finish()
            intact += bool(frames)
            assert len(frames) <= 1
        except WireError:
            continue
    # a cut at the very front leaves no bytes, and so neither a frame nor an error
    assert 98_000 < intact + tally.rejected <= 100_000
    assert tally.rejected > 50_000
