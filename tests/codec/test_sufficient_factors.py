"""Factors: what is sent multiplies out to the gradient, in the bytes of two thin matrices."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from polyrhythm.codec import SufficientFactors
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.tensors import NO_GRADIENT, Layout
from polyrhythm.errors import WorkloadError

from .aggregation import alone, check_for_the_wire, normal, payload, same_bits

CODEC = SufficientFactors()
M, N = 7, 5
LAYOUT = Layout(("fc.weight", "fc.bias", "out.weight", "norm"), ((M, N), (M,), (3, M), (M,)))
LAYERS = {"fc": (N, M), "out": (M, 3)}


def drawn(seed: int, samples: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ExchangeContext]:
    """A gradient of so many samples, and a context with its factors."""
    found, value = {}, normal(seed, LAYOUT.numel, dtype)
    parts = LAYOUT.named(value)
    for name, (ins, outs) in LAYERS.items():
        x, delta = normal(seed + 1, samples * ins, dtype).view(samples, ins), normal(seed + 2, samples * outs, dtype).view(samples, outs)
        found[name] = Factors(x, delta)
        parts[f"{name}.weight"].copy_(delta.T @ x)
    parts["fc.bias"].copy_(found["fc"].outputs.sum(0))
    return value, dataclasses.replace(alone(LAYOUT), factors=found)


def encoded(value: Tensor, context: ExchangeContext, layout: Layout = LAYOUT) -> Encoded:
    return CODEC.encode(value, layout, {}, context)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("samples", [0, 1, 3, 40])
def test_factors_multiply_out_to_the_gradient_at_every_receiver(samples: int, dtype: torch.dtype) -> None:
    value, context = drawn(1, samples, dtype)
    one = encoded(value, context)
    check_for_the_wire(one.packet)
    torch.testing.assert_close(one.sent, value, rtol=1e-5, atol=1e-5)
    copies = tuple(torch.cat([torch.zeros(3, dtype=part.dtype), part])[3:] for part in one.packet)  # elsewhere in memory
    assert same_bits(CODEC.decode(copies, LAYOUT), one.sent)


@pytest.mark.parametrize("samples", [1, 3, 40])
def test_a_packet_has_k_times_m_and_n_numbers_of_each_layer_and_the_rest_as_it_is(samples: int) -> None:
    packet = encoded(*drawn(1, samples)).packet
    assert payload(packet) == 8 * len(LAYERS) + 4 * sum(samples * (ins + outs) for ins, outs in LAYERS.values()) + 4 * M


def test_batches_of_different_sizes_are_summed() -> None:
    values, contexts = zip(*(drawn(10 * k, samples) for k, samples in enumerate((2, 5, 1))), strict=True)
    aggregations = [CODEC.aggregate(value, LAYOUT, {}, context) for value, context in zip(values, contexts, strict=True)]
    packets = [next(aggregation).packet for aggregation in aggregations]  # type: ignore[union-attr]
    totals = []
    for aggregation in aggregations:
        with pytest.raises(StopIteration) as end:
            aggregation.send(packets)
        totals.append(end.value.value.total)
    assert same_bits(totals[0], totals[1])
    torch.testing.assert_close(totals[0], sum(values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_parts_of_a_layer_take_their_columns_of_the_errors(parts: int) -> None:
    value, context = drawn(4, 6)
    layouts = [part for half in LAYOUT.split(2) for part in half.split(parts)]
    contexts, pieces = context.parts(layouts), LAYOUT.cut(value, layouts)
    sent = [encoded(*each).sent for each in zip(pieces, contexts, layouts, strict=True)]
    torch.testing.assert_close(torch.cat(sent), value, rtol=1e-5, atol=1e-5)


def test_a_layer_without_a_gradient_sends_none_and_stays_without_one() -> None:
    value, context = drawn(2, 4)
    for name in ("fc.weight", "fc.bias"):
        LAYOUT.named(value)[name].fill_(NO_GRADIENT)
    without = dataclasses.replace(context, factors={"out": context.factors["out"]})
    one = encoded(value, without)
    assert same_bits(one.sent[: M * N + M], value[: M * N + M])
    assert payload(one.packet) == 8 * 2 + 4 * 4 * (M + 3) + 4 * M


def test_a_gradient_of_zeros_is_a_gradient() -> None:
    value, context = drawn(2, 4)
    zero = {"fc": Factors(-torch.ones(4, N), torch.zeros(4, M)), "out": context.factors["out"]}
    for name in ("fc.weight", "fc.bias"):
        LAYOUT.named(value)[name].zero_()
    assert not encoded(value, dataclasses.replace(context, factors=zero)).sent[0].signbit()


def test_what_the_context_has_no_factors_of_goes_as_it_is() -> None:
    value = normal(3, LAYOUT.numel)
    assert same_bits(encoded(value, alone(LAYOUT)).sent, value)


@pytest.mark.parametrize("name", ["fc.weight", "fc.bias", "out.weight"])
def test_a_gradient_that_is_not_the_product_is_refused(name: str) -> None:
    value, context = drawn(5, 8)
    LAYOUT.named(value)[name].mul_(0.999)
    with pytest.raises(WorkloadError, match=f"gradient of {name} is not the product .* clipped, scaled or kept"):
        encoded(value, context)


def test_half_precision_inside_a_layer_allows_its_rounding_and_no_more() -> None:
    value, context = drawn(6, 8)
    halves = {name: Factors(each.inputs.bfloat16(), each.outputs.bfloat16()) for name, each in context.factors.items()}
    parts = LAYOUT.named(value)
    for name, each in halves.items():
        parts[f"{name}.weight"].copy_((each.outputs.float().T @ each.inputs.float()).bfloat16())
    parts["fc.bias"].copy_(halves["fc"].outputs.float().sum(0).bfloat16())
    torch.testing.assert_close(encoded(value, dataclasses.replace(context, factors=halves)).sent, value, rtol=0.01, atol=0.01)
    parts["fc.weight"].mul_(0.8)
    with pytest.raises(WorkloadError, match=r"fc\.weight"):
        encoded(value, dataclasses.replace(context, factors=halves))


def test_a_layer_inside_of_others_is_found_by_its_whole_path() -> None:
    layout = Layout(("net.0.fc.weight", "net.0.fc.bias"), ((M, N), (M,)))
    x, delta = normal(1, 2 * N).view(2, N), normal(2, 2 * M).view(2, M)
    value = torch.cat([(delta.T @ x).reshape(-1), delta.sum(0)])
    one = encoded(value, dataclasses.replace(alone(layout), factors={"net.0.fc": Factors(x, delta)}), layout)
    assert [part.numel() for part in one.packet] == [1, 2 * M, 2 * N, 0]
    torch.testing.assert_close(one.sent, value)
