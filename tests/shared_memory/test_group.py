"""Groups of ranks that share memory; the ranks are threads here, for the engines let go of the interpreter while they wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyrhythm.core.kernel.message import DTYPES
from polyrhythm.core.shared_memory import MemoryGroup, Operation, SharedSegment
from polyrhythm.core.shared_memory.native import Native
from polyrhythm.core.shared_memory.portable import OPERATIONS, Portable
from polyrhythm.core.shared_memory.segment import LINE
from polyrhythm.errors import RunError

ENGINES = {"native": (Native,), "portable": (Portable,), "mixed": (Native, Portable)}
SIZES = [1, 7, 1000, 4097, 65_536, 65_537, 200_003]
Body = Callable[[MemoryGroup], object]


def together(ranks: int, body: Body, engines: tuple[type, ...] = (Native,), segment: SharedSegment | None = None) -> list[object]:
    """What `body` returns at each rank."""
    segment = segment or SharedSegment.create(ranks)
    groups = [MemoryGroup(segment, rank, engines[rank % len(engines)]) for rank in range(ranks)]
    try:
        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(body, groups))
    finally:
        segment.close()


def numbers(rank: int, size: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + size)
    if dtype == torch.bool:
        return torch.randint(0, 2, (size,), generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator).to(dtype)
    return torch.randint(0, 5, (size,), generator=generator).to(dtype)


def added(values: list[Tensor], operation: Operation = Operation.SUM) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = OPERATIONS[operation](total, value)
    return total


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_sum_is_that_of_the_ranks_in_order_bit_for_bit(ranks: int, engines: tuple[type, ...]) -> None:
    def body(group: MemoryGroup) -> list[Tensor]:
        tensors = [numbers(group.rank, size, torch.float32) for size in SIZES]
        for tensor in tensors:
            group.reduce(tensor, tensor)
        return tensors

    for sums in together(ranks, body, engines):
        for size, total in zip(SIZES, sums, strict=True):
            assert torch.equal(total, added([numbers(rank, size, torch.float32) for rank in range(ranks)])), size


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_rotated_mean_begins_each_part_with_its_own_rank(ranks: int, engines: tuple[type, ...]) -> None:
    def body(group: MemoryGroup) -> list[Tensor]:
        tensors = [numbers(group.rank, size, torch.float64) for size in SIZES]
        for tensor in tensors:
            group.reduce(tensor, tensor, divisor=ranks, rotated=True)
        return tensors

    for means in together(ranks, body, engines):
        for size, mean in zip(SIZES, means, strict=True):
            parts = [torch.tensor_split(numbers(rank, size, torch.float64), ranks) for rank in range(ranks)]
            wanted = [added([parts[(k + turn) % ranks][k] for turn in range(ranks)]) / ranks for k in range(ranks)]
            assert torch.equal(mean, torch.cat(wanted)), size


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_parts_are_added_up_where_they_lie_with_the_bits_of_the_whole(
    ranks: int, engines: tuple[type, ...], rotated: bool, dtype: torch.dtype
) -> None:
    whole = sum(SIZES) + SIZES[3]

    def body(group: MemoryGroup) -> tuple[Tensor, list[Tensor], list[int]]:
        flat = numbers(group.rank, whole, dtype)
        parts = [part.clone() for part in flat.split([*SIZES, 0, SIZES[3]])]  # small ones alone and next to each other
        versions = [part._version for part in parts]
        group.reduce(flat, flat, divisor=ranks, rotated=rotated)
        group.reduce_parts(parts, ranks, rotated=rotated)
        return flat, parts, [part._version - version for part, version in zip(parts, versions, strict=True)]

    for flat, parts, written in together(ranks, body, engines):
        assert torch.equal(torch.cat(parts), flat)
        assert all(written), "autograd knows that they have changed"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_can_be_added_up_and_compared(dtype: torch.dtype) -> None:
    operations = [Operation.MINIMUM, Operation.MAXIMUM] if dtype == torch.bool else list(Operation)[:4]
    if not dtype.is_floating_point:
        operations += [Operation.AND, Operation.OR, Operation.XOR]

    def body(group: MemoryGroup) -> list[Tensor]:
        results = []
        for operation in operations:
            results.append(numbers(group.rank, 5001, dtype))
            group.reduce(results[-1], results[-1], operation)
        return results

    for results in together(3, body):
        for operation, result in zip(operations, results, strict=True):
            assert torch.equal(result, added([numbers(rank, 5001, dtype) for rank in range(3)], operation)), operation


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("operation", [Operation.MINIMUM, Operation.MAXIMUM])
def test_what_is_not_a_number_at_one_rank_is_none_in_the_extreme(
    operation: Operation, dtype: torch.dtype, engines: tuple[type, ...]
) -> None:
    def values(rank: int, size: int) -> Tensor:
        given = numbers(rank, size, dtype)
        given[rank::5] = float("nan")
        given[3] = float("inf")
        return given

    def body(group: MemoryGroup) -> list[Tensor]:
        whole, parts, part = values(group.rank, 20_001), values(group.rank, 60_000), torch.empty(20_000, dtype=dtype)
        group.reduce(whole, whole, operation)
        group.reduce_scatter(parts, part, operation)
        return [whole, part]

    for rank, (whole, part) in enumerate(together(3, body, engines)):
        assert torch.equal(whole.isnan(), torch.arange(20_001) % 5 < 3)
        for got, size, which in ((whole, 20_001, slice(None)), (part, 60_000, slice(rank * 20_000, (rank + 1) * 20_000))):
            assert torch.equal(got.nan_to_num(7.0), added([values(each, size) for each in range(3)], operation)[which].nan_to_num(7.0))


def test_types_that_engines_do_not_add_up_go_the_same_way_in_both() -> None:
    def values(rank: int) -> Tensor:
        return torch.complex(numbers(rank, 5001, torch.float32), numbers(rank + 1, 5001, torch.float32))

    def body(group: MemoryGroup) -> Tensor:
        total = values(group.rank)
        group.reduce(total, total)
        return total

    for total in together(3, body, ENGINES["mixed"]):
        assert torch.equal(total, added([values(rank) for rank in range(3)]))


def test_the_engine_with_torch_alone_wakes_the_one_in_c() -> None:
    def body(group: MemoryGroup) -> float:
        began = time.monotonic()
        for _ in range(60):
            if group.rank:
                time.sleep(0.001)  # so that the engine in C has gone to sleep, for 50 milliseconds if nobody wakes it
            group.barrier()
        return time.monotonic() - began

    assert max(together(2, body, ENGINES["mixed"])) < 2.0  # type: ignore[type-var]


ranks_and_deeds = st.tuples(
    st.integers(1, 4),
    st.sampled_from(sorted(ENGINES)),
    st.lists(
        st.tuples(st.sampled_from(["reduce", "scatter", "gather", "exchange", "broadcast", "barrier"]), st.sampled_from(SIZES)), max_size=12
    ),
)


@given(ranks_and_deeds)
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_collectives_gives_what_each_would_alone(case: tuple[int, str, list[tuple[str, int]]]) -> None:
    ranks, engines, deeds = case

    def body(group: MemoryGroup) -> list[Tensor]:
        return [does(group, deed, size, number) for number, (deed, size) in enumerate(deeds)]

    for rank, results in enumerate(together(ranks, body, ENGINES[engines])):
        for number, ((deed, size), result) in enumerate(zip(deeds, results, strict=True)):
            assert torch.equal(result, wanted(rank, ranks, deed, size, number)), (deed, size)


def does(group: MemoryGroup, deed: str, size: int, number: int) -> Tensor:
    own, parts = numbers(group.rank, size + number, torch.float32), numbers(group.rank, (size + number) * group.ranks, torch.float32)
    into, long = torch.empty_like(own), torch.empty_like(parts)
    if deed == "reduce":
        group.reduce(own, into)
        return into
    if deed == "scatter":
        group.reduce_scatter(parts, into)
        return into
    if deed == "gather":
        group.gather(own, long)
        return long
    if deed == "exchange":
        group.exchange(parts, long)
        return long
    if deed == "broadcast":
        group.broadcast(own, number % group.ranks)
    else:
        group.barrier()
    return own


def wanted(rank: int, ranks: int, deed: str, size: int, number: int) -> Tensor:
    owns = [numbers(each, size + number, torch.float32) for each in range(ranks)]
    parts = [numbers(each, (size + number) * ranks, torch.float32).view(ranks, -1) for each in range(ranks)]
    return {
        "reduce": lambda: added(owns),
        "scatter": lambda: added([part[rank] for part in parts]),
        "gather": lambda: torch.cat(owns),
        "exchange": lambda: torch.cat([part[rank] for part in parts]),
        "broadcast": lambda: owns[number % ranks],
        "barrier": lambda: owns[rank],
    }[deed]()


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("start", [2**31 - 2, 2**32 - 2])
def test_buffers_go_on_in_turn_when_the_counters_begin_anew(start: int, engines: tuple[type, ...]) -> None:
    def body(group: MemoryGroup) -> Tensor:
        engine: Any = group._engine
        if isinstance(engine, Native):
            engine._group.step = start
        else:
            engine._step = start
        total = numbers(group.rank, 600_000, torch.float32)
        ready.wait()
        group.reduce(total, total)
        return total

    ready, segment = threading.Barrier(2), SharedSegment.create(2)
    for rank in range(2):
        segment.base[rank * LINE : rank * LINE + 4].view(torch.int32).fill_(-4)  # the lower bits of 2 * start
    for total in together(2, body, engines, segment):
        assert torch.equal(total, added([numbers(rank, 600_000, torch.float32) for rank in range(2)]))


def test_empty_tensors_take_part_without_an_exchange() -> None:
    def body(group: MemoryGroup) -> None:
        nothing = torch.empty(0)
        group.reduce(nothing, nothing)
        group.gather(nothing, nothing)
        group.broadcast(nothing)
        group.reduce_scatter(nothing, nothing)
        group.exchange(nothing, nothing)
        group.barrier()

    together(3, body)


def test_another_process_opens_a_segment_by_its_path() -> None:
    segment = SharedSegment.create(2)
    opened = SharedSegment.open(segment.path, 2)
    segment.base[5] = 7
    assert opened.base[5] == 7
    segment.close()


def test_a_segment_that_is_something_else_is_refused() -> None:
    segment, other = SharedSegment.create(2), SharedSegment.create(2)
    token = other.path.partition(" ")[2]
    with pytest.raises(RunError, match="another container"):
        SharedSegment.open(f"{segment.path.partition(' ')[0]} {token}", 2)
    with pytest.raises(RunError, match="has ended, or is on another host"):
        SharedSegment.open(f"/proc/{os.getpid()}/fd/999999 {token}", 2)
    with pytest.raises(RunError, match="not the size"):
        SharedSegment.open(segment.path, 3)
    segment.close()
    other.close()


DISAGREEMENTS: dict[str, tuple[Body, Body]] = {
    "sizes": (lambda group: sum_of(group, torch.ones(16)), lambda group: sum_of(group, torch.ones(12))),
    "large sizes": (lambda group: sum_of(group, torch.ones(200_000)), lambda group: sum_of(group, torch.ones(199_999))),
    "types": (lambda group: sum_of(group, torch.ones(6)), lambda group: sum_of(group, torch.ones(3, dtype=torch.float64))),
    "operations": (lambda group: sum_of(group, torch.ones(6)), lambda group: sum_of(group, torch.ones(6), Operation.MAXIMUM)),
    "a sum and a mean": (lambda group: sum_of(group, torch.ones(6)), lambda group: group.reduce(torch.ones(6), torch.ones(6), divisor=3)),
    "kinds": (lambda group: sum_of(group, torch.ones(6)), lambda group: group.broadcast(torch.ones(6))),
    "a sum and a barrier": (lambda group: sum_of(group, torch.ones(6)), lambda group: group.barrier()),
    "roots": (lambda group: group.broadcast(torch.ones(6), 0), lambda group: group.broadcast(torch.ones(6), 1)),
    "gathered types": (
        lambda group: group.gather(torch.ones(6), torch.ones(18)),
        lambda group: group.gather(torch.ones(6).int(), torch.ones(18).int()),
    ),
    "parts": (
        lambda group: group.exchange(torch.ones(6), torch.ones(6)),
        lambda group: group.reduce_scatter(torch.ones(6), torch.ones(2)),
    ),
}


def sum_of(group: MemoryGroup, tensor: Tensor, operation: Operation = Operation.SUM) -> None:
    group.reduce(tensor, tensor, operation)


@pytest.mark.parametrize("engines", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("usual", "odd"), DISAGREEMENTS.values(), ids=DISAGREEMENTS)
def test_ranks_that_do_different_things_all_get_an_error(engines: tuple[type, ...], usual: Body, odd: Body) -> None:
    def body(group: MemoryGroup) -> tuple[str, str]:
        errors = []
        group.barrier()
        for deed in (odd if group.rank == 1 else usual, usual):
            with pytest.raises(ConnectionAbortedError) as caught:
                deed(group)
            errors.append(str(caught.value))
        return errors[0], errors[1]

    for rank, (first, then) in enumerate(together(3, body, engines)):  # type: ignore[misc]
        assert first.startswith("ranks disagree: rank ")
        assert "rank 1" in first
        assert f"than rank {rank}" in first
        assert "out of step" in then
