"""Codecs that send something made of the values: momenta of all kinds."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import (
    AveragedMomentum,
    Clipped,
    CosineTopK,
    DecayingFeedback,
    ErrorFeedback,
    Identity,
    MomentumCorrection,
    ScaledSign,
    Striped,
    TopK,
    TopKWarmup,
)
from polyrhythm.core.protocols.requests import AllGatherRequest, AllReduceRequest, AllToAllRequest
from polyrhythm.errors import CompositionError

from .aggregation import LAYOUT, CollectiveClient, alone, normal, same_bits


def test_what_is_not_sent_keeps_its_momentum_and_what_is_sent_forgets_it() -> None:
    """Algorithm 4 of Lin et al., 2018, element by element."""
    codec, state = MomentumCorrection(TopK(0.2), 0.9), MomentumCorrection(TopK(0.2)).initial(LAYOUT)
    u, v = torch.zeros(LAYOUT.numel), torch.zeros(LAYOUT.numel)
    for step in range(8):
        value = normal(step, LAYOUT.numel)
        u = 0.9 * u + value
        v = v + u
        encoded = codec.encode(value, LAYOUT, state, alone())
        state, leaves = encoded.state, encoded.sent != 0
        assert torch.equal(encoded.sent, v * leaves)
        assert v[leaves].abs().min() >= v[~leaves].abs().max()
        u, v = u * ~leaves, v * ~leaves
    assert torch.equal(codec.residual(state, LAYOUT), v)


def test_without_momentum_correction_is_error_feedback() -> None:
    corrected, fed = MomentumCorrection(TopK(0.2), 0.0), ErrorFeedback(TopK(0.2))
    states = [corrected.initial(LAYOUT), fed.initial(LAYOUT)]
    for step in range(6):
        encoded = [
            codec.encode(normal(step, LAYOUT.numel), LAYOUT, state, alone()) for codec, state in zip((corrected, fed), states, strict=True)
        ]
        states = [each.state for each in encoded]
        assert same_bits(encoded[0].sent, encoded[1].sent)
        assert same_bits(corrected.residual(states[0], LAYOUT), fed.residual(states[1], LAYOUT))


def test_sparsity_grows_from_stage_to_stage() -> None:
    codec = TopKWarmup((0.5, 0.25, 0.1), steps=2)
    state, counts = codec.initial(LAYOUT), []
    for step in range(8):
        encoded = codec.encode(normal(step, LAYOUT.numel), LAYOUT, state, alone())
        state = encoded.state
        counts.append(len(encoded.packet[0]))
    assert counts == [31, 31, 16, 16, 7, 7, 7, 7]


def test_local_clipping_divides_the_norm_by_the_root_of_the_number_of_workers() -> None:
    client = CollectiveClient(Clipped(1.0, Identity()), LAYOUT, 4)
    small = torch.full((LAYOUT.numel,), 1e-3)
    aggregated = client.round([normal(0, LAYOUT.numel), normal(1, LAYOUT.numel), small, small])
    assert [one.sent.norm().item() for one in aggregated[:2]] == pytest.approx([0.5, 0.5])
    assert same_bits(aggregated[2].sent, small)


def test_all_come_to_the_mean_momentum_before_and_after_the_warmup() -> None:
    client, mean = CollectiveClient(AveragedMomentum(0.9, 2, Identity()), LAYOUT, 3), torch.zeros(LAYOUT.numel)
    for step in range(5):
        values = [normal(10 * step + rank, LAYOUT.numel) for rank in range(3)]
        aggregated = client.round(values)
        mean = 0.9 * mean + 0.1 * torch.stack(values).mean(dim=0)
        torch.testing.assert_close(aggregated[0].state["momentum"], mean)
        torch.testing.assert_close(aggregated[0].total / 3, torch.stack(values).mean(dim=0) if step < 2 else mean)
        assert all(same_bits(one.state["momentum"], aggregated[0].state["momentum"]) for one in aggregated)


def test_one_bit_momentum_goes_by_stripes_with_both_residuals() -> None:
    client = CollectiveClient(AveragedMomentum(0.9, 1, Striped(ErrorFeedback(ScaledSign()))), LAYOUT, 2)
    for step in range(2):
        client.round([normal(step + rank, LAYOUT.numel) for rank in range(2)])
    assert client.questions == [AllReduceRequest, AllToAllRequest, AllGatherRequest]
    assert {"inner/out/1/residual", "inner/back/0/residual"} <= client.states[0].keys()


def test_a_decoupled_momentum_fades_and_loses_what_it_sends() -> None:
    codec = DecayingFeedback(TopK(0.2), 0.9)
    state, momentum = codec.initial(LAYOUT), torch.zeros(LAYOUT.numel)
    for step in range(6):
        value = normal(step, LAYOUT.numel)
        momentum = 0.9 * momentum + value
        encoded = codec.encode(value, LAYOUT, state, alone())
        state, momentum = encoded.state, momentum - encoded.sent
        assert same_bits(codec.residual(state, LAYOUT), momentum)


def test_blocks_are_transformed_without_loss_and_a_smooth_one_in_one_coefficient() -> None:
    value = normal(3, LAYOUT.numel)
    torch.testing.assert_close(CosineTopK(4096).encode(value, LAYOUT, {}, alone()).sent, value)
    flat = torch.full((LAYOUT.numel,), 2.5)
    torch.testing.assert_close(CosineTopK(1).encode(flat, LAYOUT, {}, alone()).sent, flat)


def test_the_largest_coefficients_of_each_block_are_kept() -> None:
    """(6, 5) in blocks of (3, 1), (6,) of 3, (4, 6) of (4, 3), and a single element: k of each, two bytes and four."""
    packet = CosineTopK(2, chunk=4).encode(normal(0, LAYOUT.numel), LAYOUT, {}, alone()).packet
    blocks = (10, 2, 2)
    assert [len(part) for part in packet] == [2 * sum(blocks) + 1] * 2
    assert packet[0].dtype == torch.int16
    value = normal(0, LAYOUT.numel)
    lost = [(value - CosineTopK(k).encode(value, LAYOUT, {}, alone()).sent).norm() for k in (1, 3, 9, 30)]
    assert lost == sorted(lost, reverse=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MomentumCorrection(TopK(0.1), 1.0),
        lambda: MomentumCorrection(Identity()),
        lambda: TopKWarmup((), 1),
        lambda: TopKWarmup((0.1,), 0),
        lambda: Clipped(0.0, Identity()),
        lambda: AveragedMomentum(1.0, 1, Identity()),
        lambda: AveragedMomentum(0.9, 0, Identity()),
        lambda: DecayingFeedback(TopK(0.1), 1.0),
        lambda: CosineTopK(0),
        lambda: CosineTopK(1, chunk=182),
    ],
)
def test_settings_that_cannot_work_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=r"give|keep|Use it bare"):
        make()
