"""Collectives of tensors in pieces; the ranks are threads here, for the engines let go of the interpreter while they wait."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyrhythm.core.kernel.message import DTYPES
from polyrhythm.core.shared_memory import Disagreement, Operation, PieceGroup, SharedSegment
from polyrhythm.core.shared_memory.engine import ADDS
from polyrhythm.core.shared_memory.native_pieces import NativePieces
from polyrhythm.core.shared_memory.portable import OPERATIONS, Portable

ENGINES = {"native": (NativePieces,), "portable": (Portable,), "mixed": (NativePieces, Portable)}
LENGTHS = ([3, 0, 70_001], [1], [0], [65_536, 200_003, 5])
"""Of the pieces of each rank."""


def together(ranks: int, body: Callable[[PieceGroup], object], engines: tuple[type, ...] = (NativePieces,)) -> list[object]:
    """What `body` returns at each rank."""
    segment = SharedSegment.create(ranks)
    groups = [PieceGroup(segment, rank, engines[rank % len(engines)]) for rank in range(ranks)]
    try:
        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(body, groups))
    finally:
        segment.close()


def pieces(rank: int, to: int, lengths: list[int], dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 * rank + to)
    return [torch.randn(length, generator=generator).mul(9).to(dtype) for length in lengths]


def summed(ranks: int, of: int, lengths: list[int], dtype: torch.dtype, operation: Operation = Operation.SUM) -> list[Tensor]:
    """In the order of a ring: it begins with the rank after the one that gets the sum."""
    first, *others = [pieces((of + 1 + turn) % ranks, of, lengths, dtype) for turn in range(ranks)]
    for other in others:
        first = [OPERATIONS[operation](one, two) for one, two in zip(first, other, strict=True)]
    return first


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_sums_come_to_their_ranks_in_the_order_of_a_ring_bit_for_bit(ranks: int, engines: tuple[type, ...]) -> None:
    lengths = LENGTHS[:ranks]

    def body(group: PieceGroup) -> list[Tensor]:
        parts = [pieces(group.rank, to, lengths[to], torch.float32) for to in range(ranks)]
        found = [torch.empty(length) for length in lengths[group.rank]]
        group.reduce_scatter(parts, found, divisor=3)
        return found

    for rank, found in enumerate(together(ranks, body, engines)):
        for one, other in zip(found, summed(ranks, rank, lengths[rank], torch.float32), strict=True):
            assert torch.equal(one, other / 3)


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_each_rank_has_comes_into_the_places_of_all(dtype: torch.dtype, engines: tuple[type, ...]) -> None:
    ranks = 4

    def body(group: PieceGroup) -> list[list[Tensor]]:
        own = pieces(group.rank, 0, LENGTHS[group.rank], dtype)
        places = [own if rank == group.rank else [torch.zeros(sum(each), dtype=dtype)] for rank, each in enumerate(LENGTHS)]
        group.gather(own, places)
        return places

    for places in together(ranks, body, engines):
        for rank, found in enumerate(places):
            assert torch.equal(torch.cat(found), torch.cat(pieces(rank, 0, LENGTHS[rank], dtype)))


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("dtype", sorted(ADDS, key=str), ids=str)
def test_every_type_that_is_added_up_has_its_maximum_too(dtype: torch.dtype, engines: tuple[type, ...]) -> None:
    for operation in (Operation.SUM, Operation.MAXIMUM):

        def body(group: PieceGroup, operation: Operation = operation) -> list[Tensor]:
            parts = [pieces(group.rank, to, [40, 9], dtype) for to in range(3)]
            found = [torch.empty_like(part) for part in parts[group.rank]]
            group.reduce_scatter(parts, found, operation=operation)
            return found

        for rank, found in enumerate(together(3, body, engines)):
            for one, other in zip(found, summed(3, rank, [40, 9], dtype, operation), strict=True):
                assert torch.equal(one, other)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40_000), max_size=4), min_size=2, max_size=4), st.integers(0, 2**16))
def test_any_lengths_are_summed_and_gathered_again_and_again(lengths: list[list[int]], seed: int) -> None:
    ranks, order = len(lengths), random.Random(seed)
    turns = [order.random() < 0.5 for _ in range(5)]

    def body(group: PieceGroup) -> list[list[Tensor]]:
        results = []
        for sums in turns:
            parts = [pieces(group.rank, to, each, torch.float64) for to, each in enumerate(lengths)]
            places = [[torch.empty_like(piece) for piece in each] for each in parts]
            if sums:
                group.reduce_scatter(parts, places[group.rank])
                results.append(places[group.rank])
            else:
                group.gather(parts[group.rank], places)
                results.append([piece for each in places for piece in each])
        return results

    for rank, results in enumerate(together(ranks, body, ENGINES["mixed"])):
        for sums, found in zip(turns, results, strict=True):
            wanted = [piece for k, each in enumerate(lengths) for piece in pieces(k, k, each, torch.float64)]
            for one, other in zip(found, summed(ranks, rank, lengths[rank], torch.float64) if sums else wanted, strict=True):
                assert torch.equal(one, other)


@pytest.mark.parametrize("engine", [NativePieces, Portable])
def test_a_rank_that_is_lost_in_the_middle_ends_the_wait_and_the_group(engine: type) -> None:
    segment = SharedSegment.create(2)
    group, own = PieceGroup(segment, 0, engine), torch.ones(4)
    threading.Timer(0.05, group.lose, [1]).start()
    with pytest.raises(ConnectionAbortedError, match="given up"):
        group.gather([own], [[own], [torch.empty(4)]])
    with pytest.raises(ConnectionAbortedError, match="out of step"):
        group.reduce_scatter([[own], [own]], [own])
    segment.close()


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
def test_ranks_that_disagree_get_an_error_and_not_each_others_numbers(engines: tuple[type, ...]) -> None:
    def body(group: PieceGroup) -> object:
        own = torch.ones(4 + group.rank)
        with pytest.raises(Disagreement, match="ranks disagree"):
            group.gather([own], [[torch.empty_like(own)]] * 2)
        return None

    together(2, body, engines)


def test_the_engine_in_c_refuses_pieces_that_do_not_fit() -> None:
    def body(group: PieceGroup) -> object:
        with pytest.raises(ValueError, match="a place for each byte"):
            group.gather([torch.ones(3)], [[torch.ones(4)]])
        with pytest.raises(ValueError, match="as long as those"):
            group.reduce_scatter([[torch.ones(4)]], [torch.ones(2), torch.ones(2)])
        with pytest.raises(ValueError, match="for every rank"):
            group.gather([torch.ones(3)], [[torch.ones(3)], []])
        return None

    together(1, body)


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
def test_ranks_that_disagree_about_lengths_or_the_source_get_an_error(engines: tuple[type, ...]) -> None:
    """The bytes of all together are the same."""

    def gather(group: PieceGroup) -> None:
        places = [[torch.empty(2)], [torch.empty(6)]] if group.rank == 0 else [[torch.empty(6)], [torch.empty(2)]]
        with pytest.raises(Disagreement, match="ranks disagree"):
            group.gather([torch.ones(2)], places)

    def sources(group: PieceGroup) -> None:
        own, places = [torch.ones(4)], [[torch.empty(4)], list[Tensor]()]
        with pytest.raises(Disagreement, match="ranks disagree"):
            group.gather(own, places if group.rank == 0 else places[::-1])

    together(2, gather, engines)
    together(2, sources, engines)
