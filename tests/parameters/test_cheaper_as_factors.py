"""Poseidon's rule: which layers are smaller as factors."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from polyrhythm.core.protocols.selection import ParameterInfo, Selection
from polyrhythm.errors import CompositionError
from polyrhythm.parameters import CheaperAsFactors, Optionally

sizes, several, batches = st.integers(1, 300), st.integers(2, 40), st.integers(1, 600)


def candidates(module: nn.Module, workers: int) -> list[ParameterInfo]:
    return [ParameterInfo(f"fc.{local}", parameter, module, local, workers) for local, parameter in module.named_parameters(recurse=False)]


def takes(selection: Selection, module: nn.Module, workers: int) -> list[bool]:
    return [selection.takes(candidate) for candidate in candidates(module, workers)]


def linear(outs: int, ins: int, bias: bool = True) -> nn.Linear:
    return nn.Linear(ins, outs, bias, device="meta")


def as_factors(outs: int, ins: int, batch: int, workers: int) -> Fraction:
    """The numbers that a worker's machine sends and receives: its factors to all others, and theirs."""
    return Fraction(2 * batch * (workers - 1) * (outs + ins))


def as_served(outs: int, ins: int, servers: int, workers: int) -> Fraction:
    """The same where shards run with workers: a worker's pushes and reads of the other shards, and its own shard's of the others."""
    mine, others = Fraction(outs * ins, servers), workers - 1
    return 2 * mine * (servers - 1) + 2 * mine * others


@given(outs=sizes, ins=sizes, batch=batches, workers=several, servers=several)
def test_a_layer_goes_the_way_of_fewer_numbers_and_its_bias_goes_with_it(
    outs: int, ins: int, batch: int, workers: int, servers: int
) -> None:
    taken = as_factors(outs, ins, batch, workers) <= as_served(outs, ins, servers, workers)
    assert takes(CheaperAsFactors(batch, servers), linear(outs, ins), workers) == [taken, taken]


@given(layers=st.lists(st.tuples(sizes, sizes), min_size=1, max_size=5), batch=batches, workers=several, servers=several)
def test_the_mixture_is_never_more_than_either_way_alone(layers: list[tuple[int, int]], batch: int, workers: int, servers: int) -> None:
    ways = [(as_factors(*layer, batch, workers), as_served(*layer, servers, workers)) for layer in layers]
    chosen = [CheaperAsFactors(batch, servers).takes(candidates(linear(*layer), workers)[0]) for layer in layers]
    mixture = sum(way[0] if taken else way[1] for way, taken in zip(ways, chosen, strict=True))
    assert mixture <= min(sum(factors for factors, _ in ways), sum(served for _, served in ways))


def test_the_crossing_of_the_paper_is_at_512_samples() -> None:
    """K* = m n (P + S - 2) / (S (P - 1) (m + n)) for 4096 by 4096 and P = S = 8; the rule includes equality."""
    layer = linear(4096, 4096)
    assert takes(CheaperAsFactors(512, 8), layer, 8) == [True, True]
    assert takes(CheaperAsFactors(513, 8), layer, 8) == [False, False]


@given(outs=sizes, ins=sizes, workers=several, servers=several)
def test_the_crossing_is_where_the_formula_has_it(outs: int, ins: int, workers: int, servers: int) -> None:
    crossing = Fraction(outs * ins * (workers + servers - 2), servers * (workers - 1) * (outs + ins))
    assume(crossing >= 1)
    below = int(crossing)
    assert [takes(CheaperAsFactors(batch, servers), linear(outs, ins, bias=False), workers)[0] for batch in (below, below + 1)] == [
        True,
        False,
    ]


def test_one_worker_alone_takes_every_layer() -> None:
    assert takes(CheaperAsFactors(10**6), linear(2, 2), 1) == [True, True]


class Special(nn.Linear):
    """Whose weight may be used in another way."""


@pytest.mark.parametrize(
    "module",
    [nn.Embedding(99, 99), nn.Conv2d(99, 99, 1), nn.LayerNorm(99), Special(99, 99), linear(99, 99).requires_grad_(False)],
    ids=repr,
)
def test_only_linear_layers_that_are_trained_have_factors(module: nn.Module) -> None:
    assert not any(takes(CheaperAsFactors(1), module, 2))


def test_a_bias_alone_has_none() -> None:
    module = linear(99, 99)
    module.weight.requires_grad_(False)
    assert takes(CheaperAsFactors(1), module, 2) == [False, False]
    normed = torch.nn.utils.parametrizations.weight_norm(nn.Linear(99, 99))
    assert not any(takes(CheaperAsFactors(1), normed, 2))


@pytest.mark.parametrize(("batch", "servers"), [(0, 1), (1, 0), (-3, 2)])
def test_what_counts_nothing_is_refused(batch: int, servers: int) -> None:
    with pytest.raises(CompositionError, match=r"compares nothing: give a batch of 1 sample or more, and 1 server or more"):
        CheaperAsFactors(batch, servers)


def test_optionally_takes_the_same() -> None:
    selection = Optionally(CheaperAsFactors(3, 2))
    assert selection.may_be_empty
    assert takes(selection, linear(99, 99), 2) == takes(CheaperAsFactors(3, 2), linear(99, 99), 2)
