"""Laws of boundaries: what crosses a cut in fewer bytes, how far it is from what was sent, and what that does to training."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.pipeline.balance import GivenStages
from polyrhythm.partition.pipeline.boundaries.bottleneck import Bottleneck
from polyrhythm.partition.pipeline.boundaries.delta import Delta
from polyrhythm.partition.pipeline.boundaries.in_place import BoundaryInPlace
from polyrhythm.partition.pipeline.boundaries.quantized import TILE, Activations, FewBits, hadamard, packed, unpacked
from polyrhythm.partition.pipeline.boundaries.subspace import Subspace, basis
from polyrhythm.partition.pipeline.boundary import Crossing, Exact
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved
from polyrhythm.partition.pipeline.values import outline_of
from polyrhythm.partition.place import Place
from polyrhythm.partition.random_numbers import Stream

from .ranks import close, on_ranks

BOUNDARIES: tuple[Any, ...] = (Exact(), Activations(4, 8), Activations(8, 8), Activations(3, 5), Delta(2, 8), Subspace(6))
WIDTH, ROWS, MICRO, STEPS = 16, 12, 3, 8


@given(st.lists(st.integers(0, 255), min_size=1, max_size=12), st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_words_are_what_was_packed(words: list[int], width: int) -> None:
    given_words = torch.tensor(words * 8, dtype=torch.uint8) & (2**width - 1)
    found = packed(given_words, width)
    assert found.dtype == torch.uint8
    assert len(found) == len(words) * width
    assert torch.equal(unpacked(found, width), given_words)


def test_the_transform_is_its_own_inverse() -> None:
    close(hadamard(TILE) @ hadamard(TILE), torch.eye(TILE))


@pytest.mark.parametrize("bits", range(2, 9))
def test_few_bits_are_within_a_level_in_the_transformed_tile_and_right_on_average(bits: int) -> None:
    value = torch.randn(5, 61, generator=torch.Generator().manual_seed(bits)) * torch.tensor([1e-6, 1.0, 50.0, 0.0, 3.0]).unsqueeze(1)
    code = FewBits(bits)
    shape, kind = code.wire((5, 61), value.dtype)
    total, draws = torch.zeros_like(value), 300
    tiles = F.pad(value.view(-1), (0, -value.numel() % TILE)).view(-1, TILE) @ hadamard(TILE)
    level = 2 * tiles.abs().amax(1, keepdim=True) / (2**bits - 1)
    for step in range(draws):
        wire = code.encode(value, Stream(0, "here", step))
        assert (tuple(wire.shape), wire.dtype) == (shape, kind)
        found = code.decode(wire, (5, 61), value.dtype)
        total += found
        arrived = F.pad(found.reshape(-1), (0, -value.numel() % TILE)).view(-1, TILE) @ hadamard(TILE)
        inner = slice(0, 2)  # of the last tile the end is cut off
        assert ((arrived - tiles).abs()[inner] <= level[inner] * 1.001).all()
    rough = 4 * (level.max() / 2) / draws**0.5
    assert ((total / draws - value).abs() <= rough).all()


def test_the_error_falls_fourfold_with_each_bit() -> None:
    value = torch.randn(64, TILE, generator=torch.Generator().manual_seed(0))
    value[:, 0] *= 100  # one number that stands out
    errors = []
    for bits in range(2, 9):
        found = FewBits(bits).decode(FewBits(bits).encode(value, Stream(0, "here")), (64, TILE), value.dtype)
        errors.append(float((found - value).square().sum() / value.square().sum()))
    assert all(3 < a / b < 7 for a, b in pairwise(errors)), errors
    assert errors[-1] < 2e-4


@pytest.mark.parametrize(("bits", "ratio"), [(2, 14.22), (4, 7.53), (8, 3.88)])
def test_bits_are_what_they_save(bits: int, ratio: float) -> None:
    """16, 8 and 4 times less of float32, less the scales' 4 bytes for 128 numbers."""
    (length,), _ = FewBits(bits).wire((8, 512), torch.float32)
    assert 4 * 8 * 512 / length == pytest.approx(ratio, abs=0.01)


def net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))


SIZES = (2, 2, 1)


def samples(step: int) -> tuple[Tensor, Tensor, tuple[Hashable, ...]]:
    """Of a data set of two batches."""
    drawn = torch.Generator().manual_seed(step % 2)
    inputs = torch.randn(ROWS, 4, generator=drawn)
    return inputs, inputs[:, :2].sin(), tuple(f"{step % 2}/{row}" for row in range(ROWS))


def crossed(boundary: Any) -> list[float]:
    """One process with the boundary in its place."""
    model = net()
    first, second = (BoundaryInPlace(boundary, cut, micro_batches=MICRO) for cut in range(2))
    whole = nn.Sequential(*model[:2], first, *model[2:4], second, *model[4:])
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.3)
    losses = []
    for step in range(STEPS):
        inputs, targets, ids = samples(step)
        optimizer.zero_grad()
        found = 0.0
        for micro in range(MICRO):
            part = slice(micro * ROWS // MICRO, (micro + 1) * ROWS // MICRO)
            first.ids = second.ids = ids[part]
            loss = F.mse_loss(whole(inputs[part]), targets[part]) / MICRO
            loss.backward()
            found += loss.item()
        optimizer.step()
        losses.append(found)
    return losses


def piped(boundary: Any, ranks: int, schedule: Any = None) -> list[Any]:
    def program(place: Place, rank: int) -> Any:
        way = Pipelined(micro_batches=MICRO, schedule=schedule or GPipe(), division=GivenStages(SIZES), boundary=boundary)
        pipeline = way.local(net(), place, MeanLoss(F.mse_loss))
        optimizer = torch.optim.SGD(pipeline.module.parameters(), lr=0.3)
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            losses.append(pipeline.step(*samples(step)).item())
            optimizer.step()
        pipeline.module.eval()
        errors, kept = pipeline.cuts.errors(), pipeline.cuts.kept
        return losses, errors, kept, pipeline.evaluate(*samples(0)[:2]).item(), place.axis("pp").nbytes["send_to"]

    return on_ranks(program, pp=ranks)


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=repr)
def test_a_pipeline_with_a_boundary_is_the_model_with_it_in_its_place(boundary: Any) -> None:
    expected = crossed(boundary)
    for ranks, schedule in ((3, GPipe()), (1, Interleaved(3))):
        for losses, errors, _, _, _ in piped(boundary, ranks, schedule):
            close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4)
            assert all((error > 0) == boundary.approximate for error in errors.values())


def test_eight_bits_train_almost_as_exact_activations_do() -> None:
    exact, rough = (piped(boundary, 3)[0][0] for boundary in (Exact(), Activations(8, 8)))
    assert exact != rough
    close(torch.tensor(rough), torch.tensor(exact), rtol=0.02, atol=2e-3)


def test_fewer_bits_have_a_larger_error_at_each_stage() -> None:
    few, many = (piped(boundary, 3) for boundary in (Activations(2, 4), Activations(6, 8)))
    for rough, fine in zip(few, many, strict=True):
        assert rough[1].keys() == fine[1].keys()
        assert all(rough[1][name] > 20 * error for name, error in fine[1].items())
    assert {name for each in few for name in each[1]} == {
        f"{what} over cut {cut}" for what in ("activations", "gradients") for cut in (0, 1)
    }


def test_changes_shrink_and_are_remembered_at_both_ends() -> None:
    delta, fresh = piped(Delta(2, 8), 3), piped(Activations(2, 8), 3)
    assert delta[0][1]["activations over cut 0"] < fresh[0][1]["activations over cut 0"] / 20
    assert [kept for _, _, kept, _, _ in delta] == [2 * ROWS * WIDTH * 4 * ends for ends in (1, 2, 1)]
    assert all(kept == 0 for _, _, kept, _, _ in fresh)
    close(torch.tensor(delta[0][3]), torch.tensor(delta[2][3]))


def test_changes_need_names_of_samples() -> None:
    def program(place: Place, rank: int) -> Any:
        way = Pipelined(micro_batches=MICRO, division=GivenStages((2, 3)), boundary=Delta())
        way.local(net(), place, MeanLoss(F.mse_loss)).step(*samples(0)[:2])

    with pytest.raises(WorkloadError, match=r"give Pipeline\.step the ids"):
        on_ranks(program, pp=2)


def test_a_subspace_is_without_loss_for_what_is_in_it() -> None:
    code = Subspace(3).activations(0, seed=7)
    within = torch.randn(5, 3) @ basis(8, 3, 7).float().T
    crossing = Crossing("step", 0, 0)
    wires = code.pack((within,), crossing)
    assert wires[0].shape == (5, 3)
    close(code.unpack(wires, outline_of(within), crossing)[0], within)
    assert code.error() < 1e-10
    narrow = torch.randn(5, 2)
    assert torch.equal(code.pack((narrow,), crossing)[0], narrow)


@pytest.mark.parametrize(
    ("boundary", "there", "back"),
    [
        (Exact(), 2048, 2048),
        (Activations(4, 8), 272, 528),
        (Activations(2, 2), 144, 144),
        (Subspace(2), 256, 256),
        (Delta(2, 8), 2048, 528),
    ],
    ids=repr,
)
def test_bytes_are_counted_as_they_are_sent(boundary: Any, there: int, back: int) -> None:
    """Of 32 samples with 16 numbers each, in one micro-batch, and 4 bytes of the loss."""
    inputs, targets = torch.randn(32, 4), torch.randn(32, 2)

    def trained(place: Place, model: nn.Sequential, *batch: Tensor) -> int:
        way = Pipelined(micro_batches=1, division=GivenStages((2, 3)), boundary=boundary)
        pipeline = way.local(model, place, MeanLoss(F.mse_loss), torch.empty(32, 4))
        pipeline.step(*batch, ids=range(32))
        return place.axis("pp").nbytes["send_to"]

    assert on_ranks(lambda place, rank: trained(place, net(), inputs, targets), pp=2) == [there, back + 4]
    for rank, expected in enumerate((there, back + 4)):
        place = Place({"pp": CountedAxis("pp", 2, rank)}, device="meta")
        assert trained(place, net().to("meta"), inputs.to("meta"), targets.to("meta")) == expected


def test_a_bottleneck_is_trained_as_in_one_process_and_sends_its_width() -> None:
    def narrow() -> nn.Sequential:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), *Bottleneck(2).modules(WIDTH), nn.Linear(WIDTH, 2))

    model = narrow()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    expected = []
    for step in range(STEPS):
        inputs, targets, _ = samples(step)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())

    def program(place: Place, rank: int) -> Any:
        pipeline = Pipelined(division=GivenStages((3, 2))).local(narrow(), place, MeanLoss(F.mse_loss), torch.empty(ROWS, 4))
        own = torch.optim.Adam(pipeline.module.parameters(), lr=0.02)
        losses = []
        for step in range(STEPS):
            own.zero_grad()
            losses.append(pipeline.step(*samples(step)).item())
            own.step()
        return losses, place.axis("pp").nbytes["send_to"], list(dict(pipeline.module.named_parameters()))

    found = on_ranks(program, pp=2)
    assert found[0][2] + found[1][2] == list(dict(model.named_parameters()))
    for losses, _, _ in found:
        close(torch.tensor(losses), torch.tensor(expected))
    assert found[0][1] == STEPS * ROWS * 2 * 4
    assert expected[-1] < expected[0] / 2


def test_a_boundary_that_cannot_be_is_refused() -> None:
    place = Place({"pp": CountedAxis("pp", 2, 0)})
    for boundary, words in (
        (Activations(1), "1 bits are none of 2 to 8"),
        (Activations(4, 9), "9 bits are none of 2 to 8"),
        (Delta(0), "0 bits"),
        (Subspace(0), "dimensions=0"),
    ):
        assert words in Pipelined(boundary=boundary).refusal(net(), place)
        with pytest.raises(CompositionError, match=words):
            Pipelined(boundary=boundary).local(net(), place, MeanLoss(F.mse_loss))
