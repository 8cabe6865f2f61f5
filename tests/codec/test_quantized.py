"""StochasticLevels, Ternary, Sign and ScaledSign by hand."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import ErrorFeedback, LocalMomentum, ScaledSign, Sign, StochasticLevels, Striped, Ternary
from polyrhythm.codec.kernels.bits import pack, unpack
from polyrhythm.core.protocols.requests import AllGatherRequest, AllToAllRequest
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import LAYOUT, CollectiveClient, alone, normal, payload, same_bits

VECTOR = Layout(("p",), ((1024,),))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8])
def test_words_of_any_width_are_packed_without_gaps(width: int) -> None:
    words = torch.randint(0, 2**width, (37,), generator=torch.Generator().manual_seed(width)).to(torch.uint8)
    packed = pack(words, width)
    assert len(packed) == -(-37 * width // 8)
    assert torch.equal(unpack(packed, width, 37), words)


@pytest.mark.parametrize(("levels", "bits"), [(1, 2), (3, 3), (7, 4), (127, 8)])
def test_levels_take_as_many_bits_as_they_need_and_a_norm_a_bucket(levels: int, bits: int) -> None:
    value = normal(0, 1024)
    encoded = StochasticLevels(levels, bucket=512).encode(value, VECTOR, {}, alone())
    assert payload(encoded.packet) == 1024 * bits // 8 + 2 * 4
    for sent, given in zip(encoded.sent.split(512), value.split(512), strict=True):
        level = sent / given.norm() * levels
        assert torch.allclose(level, level.round(), atol=1e-4)
        assert ((sent - given).abs() <= given.norm() / levels * 1.0001).all()
        assert (sent * given >= 0).all()


def test_ternary_elements_are_the_scale_of_their_tensor_up_or_down_or_nothing() -> None:
    value = normal(1, LAYOUT.numel)
    encoded = Ternary(clip=1.5).encode(value, LAYOUT, {}, alone())
    assert payload(encoded.packet) == -(-LAYOUT.numel * 2 // 8) + 4 * len(LAYOUT.names)
    for sent, given in zip(LAYOUT.views(encoded.sent), LAYOUT.views(value), strict=True):
        scale = min(given.abs().max(), 1.5 * given.square().mean().sqrt())
        assert (sent.eq(0) | (sent.abs() - scale).abs().le(1e-6)).all()
        assert (sent * given >= 0).all()


def test_zeros_stay_zeros_however_they_are_rounded() -> None:
    for codec in (Ternary(), Ternary(float("inf")), StochasticLevels()):
        assert not codec.encode(torch.zeros(LAYOUT.numel), LAYOUT, {}, alone()).sent.any()


def test_a_vote_is_the_sign_of_the_majority_and_a_tie_counts_as_plus() -> None:
    layout = Layout(("p",), ((6,),))
    values = [torch.tensor(each) for each in ([1.0, -2.0, 3.0, -1.0, 5.0, 0.0], [-0.1, -9.0, 2.0, 1.0, -1.0, -1.0])]
    third = torch.tensor([4.0, 1.0, -1.0, -1.0, -7.0, -2.0])
    assert CollectiveClient(Striped(Sign()), layout, 2).round(values)[0].total.tolist() == [1, -1, 1, 1, 1, 1]
    client = CollectiveClient(Striped(Sign()), layout, 3)
    assert client.round([*values, third])[1].total.tolist() == [1, -1, 1, -1, -1, -1]
    assert client.questions == [AllToAllRequest, AllGatherRequest]


def test_a_sign_is_one_bit() -> None:
    assert (
        payload(Sign().encode(normal(0, 1024), VECTOR, {}, alone()).packet) == 129
    )  # and one bit that marks that the tensor has a gradient
    assert payload(ScaledSign().encode(normal(0, 1024), VECTOR, {}, alone()).packet) == 128 + 4


def test_a_scaled_sign_has_the_norm_of_what_it_stands_for() -> None:
    value = normal(2, LAYOUT.numel)
    sent = ScaledSign().encode(value, LAYOUT, {}, alone()).sent
    for mine, given in zip(LAYOUT.views(sent), LAYOUT.views(value), strict=True):
        torch.testing.assert_close(mine.norm(), given.norm())
        assert torch.equal(mine >= 0, given >= 0)


def test_signum_sends_the_sign_of_a_momentum() -> None:
    codec, momentum = LocalMomentum(0.9, Sign()), torch.zeros(LAYOUT.numel)
    state = codec.initial(LAYOUT)
    for step in range(4):
        value = normal(step, LAYOUT.numel)
        momentum = 0.9 * momentum + 0.1 * value
        encoded = codec.encode(value, LAYOUT, state, alone())
        state = encoded.state
        assert torch.equal(encoded.sent >= 0, momentum >= 0)
    assert same_bits(LocalMomentum(0.0, Sign()).encode(value, LAYOUT, codec.initial(LAYOUT), alone()).sent, value.sign())


@pytest.mark.parametrize(
    "make",
    [
        lambda: StochasticLevels(0),
        lambda: StochasticLevels(128),
        lambda: StochasticLevels(bucket=0),
        lambda: Ternary(0.0),
        lambda: LocalMomentum(1.0, Sign()),
        lambda: Striped(LocalMomentum(0.9, Sign())),
        lambda: ErrorFeedback(LocalMomentum(0.9, Sign())),
    ],
)
def test_settings_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=r"give|wrap"):
        make()
