"""Adasum: what vectors have in common counts once, tensor by tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from collectives import run_collective, values
from torch import Tensor
from toy import Toy, trained, weights

from polyrhythm.codec import Cast, ErrorFeedback, PerTensor, TopK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.processes import Processes
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology import Adasum
from polyrhythm.topology.collective.algorithms.adaptive_sum import AdaptiveSum

LAYOUT = Layout(("a", "b", "c", "d"), ((4, 3), (), (5,), (7,)))


def combined(given: list[Tensor], layout: Layout = LAYOUT) -> tuple[list[Tensor], Any]:
    """What each worker gets, as the mean would be."""
    workers = len(given)
    responses, ending = run_collective(
        workers, lambda context, group: AdaptiveSum(layout).reduce(context.port, group, given[group.rank], "t")
    )
    return [response[0] / workers for response in responses], ending


def pair(a: Tensor, b: Tensor) -> Tensor:
    """The paper's formula, tensor by tensor."""
    parts = []
    for x, y in zip(LAYOUT.views(a.double()), LAYOUT.views(b.double()), strict=True):
        dot = (x * y).sum()
        parts.append(((1 - dot / (2 * (x * x).sum())) * x + (1 - dot / (2 * (y * y).sum())) * y).reshape(-1))
    return torch.cat(parts).float()


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_power_of_two_is_combined_by_pairs(workers: int) -> None:
    given = values(workers, LAYOUT.numel)
    expected = given
    while len(expected) > 1:
        expected = [pair(a, b) for a, b in zip(expected[::2], expected[1::2], strict=True)]
    for response in (found := combined(given)[0]):
        torch.testing.assert_close(response, expected[0], rtol=1e-5, atol=1e-6)
        assert torch.equal(response, found[0])


@pytest.mark.parametrize("workers", [3, 5, 6, 7])
def test_who_is_beyond_is_combined_with_a_partner_first(workers: int) -> None:
    given, core = values(workers, LAYOUT.numel), 1 << (workers.bit_length() - 1)
    first = [pair(given[k], given[k + core]) if k + core < workers else given[k] for k in range(core)]
    found, expected = combined(given)[0], combined(first)[0][0]
    for response in found:
        torch.testing.assert_close(response, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_orthogonal_vectors_are_added_and_equal_ones_averaged(workers: int) -> None:
    layout = Layout(("a", "b"), ((workers,), (workers, 2)))
    apart = [torch.cat([torch.eye(workers)[k], 3 * torch.eye(workers)[k].repeat_interleave(2)]) for k in range(workers)]
    torch.testing.assert_close(combined(apart, layout)[0][0], sum(apart, torch.zeros(3 * workers)))
    same = values(1, 3 * workers)[0]
    torch.testing.assert_close(combined([same] * workers, layout)[0][0], same)


def test_a_tensor_of_zeros_leaves_the_other_as_it_is() -> None:
    one, nothing = values(1, LAYOUT.numel)[0], torch.zeros(LAYOUT.numel)
    for given in ([one, nothing], [nothing, one]):
        assert torch.equal(combined(given)[0][0], one)
    assert torch.equal(combined([nothing] * 4)[0][0], nothing)


def test_it_sends_about_what_a_ring_does() -> None:
    numel, workers = 100_000, 8
    _, ending = combined(values(workers, numel), Layout(("a",), ((numel,),)))
    assert ending.bytes_sent == pytest.approx(2 * (workers - 1) * 4 * numel, rel=0.01)


SGD = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05), epochs=1)


@pytest.mark.parametrize("workers", [2, 3])
def test_both_runtimes_give_the_same_bits(workers: int) -> None:
    real, virtual = (trained(SGD, workers, "adasum", on=on).summary for on in (Processes(), None))
    assert real.weights_sha256 == virtual.weights_sha256


def test_gradients_and_half_precision_can_be_combined_too() -> None:
    assert torch.isfinite(weights(SGD, 4, Strategy(topology=Adasum()))).all()
    half = weights(SGD, 4, Strategy(consistency=LocalSteps(1), topology=Adasum(), codec=Cast(torch.bfloat16)))
    torch.testing.assert_close(half, weights(SGD, 4, "adasum"), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("codec", [ErrorFeedback(TopK(0.1)), PerTensor(Cast(torch.float16))], ids=repr)
def test_packets_cannot_be_combined(codec: Any) -> None:
    with pytest.raises(CompositionError, match="workers communicate collectively, by pairs"):
        Strategy(topology=Adasum(), codec=codec)
