"""The laws of rows: what is added is read, in any order, and a packet's rows are those that were packed."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.tables import MEMBERS, DenseRows, Leased, RowKind, SparseRows

kinds = pytest.mark.parametrize("kind", [*MEMBERS, DenseRows(torch.int64), SparseRows(torch.float64)], ids=repr)
ROWS, COLUMNS = 9, 4


def values(kind: RowKind, count: int, seed: int) -> torch.Tensor:
    """Whole numbers, many of them zero."""
    draw = torch.Generator().manual_seed(seed)
    return (torch.randint(-4, 5, (count, COLUMNS), generator=draw) * torch.randint(0, 2, (count, COLUMNS), generator=draw)).to(kind.dtype)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_dense() if tensor.is_sparse else tensor


@kinds
def test_a_store_reads_what_was_added_to_it(kind: RowKind) -> None:
    store, plain = kind.store(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS, dtype=kind.dtype)
    for seed in range(5):
        rows = torch.randint(0, ROWS, (6,), generator=torch.Generator().manual_seed(seed))
        store.add(rows, kind.packed(values(kind, 6, seed), COLUMNS))
        plain.index_add_(0, rows, values(kind, 6, seed))
    for rows in (torch.arange(ROWS), torch.tensor([5, 0, 5]), torch.arange(0)):
        assert torch.equal(dense(kind.unpacked(store.read(rows), COLUMNS)), plain[rows])
    kept = store.held[1:3]
    store.keep(kept)
    store.put(torch.tensor([8]), kind.packed(values(kind, 1, 9), COLUMNS))
    expected = torch.zeros_like(plain)
    expected[kept], expected[8] = plain[kept], values(kind, 1, 9)[0]
    assert torch.equal(dense(kind.unpacked(store.read(torch.arange(ROWS)), COLUMNS)), expected)
    assert store.holds(torch.arange(ROWS)).nonzero().view(-1).tolist() == sorted({*kept.tolist(), 8}) == store.held.tolist()


@kinds
def test_a_packet_is_what_was_packed_also_in_parts(kind: RowKind) -> None:
    given = values(kind, 6, 1)
    packet = kind.packed(given, COLUMNS)
    assert torch.equal(dense(kind.unpacked(packet, COLUMNS)), given)
    assert torch.equal(dense(kind.unpacked(kind.packed(given.to_sparse(), COLUMNS), COLUMNS)), given)
    for places in (torch.tensor([4, 1, 1]), torch.arange(0)):
        assert torch.equal(dense(kind.unpacked(kind.take(packet, places), COLUMNS)), given[places])
    assert torch.equal(kind.flat(packet, COLUMNS), given.reshape(-1))


def test_what_is_no_row_of_the_table_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"shape \(2, 3\) are no rows of 4 columns"):
        DenseRows().packed(torch.zeros(2, 3), 4)
    with pytest.raises(WorkloadError, match=r"torch\.float32 cannot be added to a table of torch\.int32"):
        SparseRows(torch.int32).packed(torch.zeros(2, 4), 4)
    with pytest.raises(CompositionError, match=r"DenseRows\(torch\.bool\) cannot be"):
        DenseRows(torch.bool)


leased = pytest.mark.parametrize("kind", [Leased(), Leased(SparseRows(torch.int64)), Leased(DenseRows(torch.int16))], ids=repr)


@leased
def test_units_change_hands_and_none_is_lost_or_counted_twice(kind: Leased) -> None:
    leases, draw = kind.leases(ROWS, COLUMNS), torch.Generator().manual_seed(3)
    every, names = torch.arange(ROWS), ("a", "b", "c")
    content = torch.randint(0, 9, (ROWS, COLUMNS), generator=draw).to(kind.dtype)
    leases.begin(every, kind.packed(content, COLUMNS))
    has = {name: torch.zeros_like(content) for name in names}
    for number in range(1, 13):
        name, rows = names[number % 3], torch.randperm(ROWS, generator=draw)[:4]
        wanted = torch.randint(0, 5, (4, COLUMNS), generator=draw).to(kind.dtype)
        free = content - sum(has.values())
        taken = dense(kind.unpacked(leases.adopt(name, number, rows, kind.packed(wanted, COLUMNS)), COLUMNS))
        again = dense(kind.unpacked(leases.adopt(name, number, rows, kind.packed(wanted, COLUMNS)), COLUMNS))
        assert torch.equal(taken, again)
        assert bool((taken >= torch.minimum(free[rows], wanted)).all())
        assert bool((taken <= free[rows]).all())
        assert torch.equal(taken.sum(1), torch.minimum(free[rows].sum(1), wanted.sum(1)))
        has[name].index_add_(0, rows, taken)
        if number % 4 == 0:  # a part is given up, another changes
            leases.release(name, rows[:1], kind.packed(has[name][rows[:1]], COLUMNS))
            has[name][rows[:1]] = 0
            move = torch.tensor([[-1, 1, 0, 0]], dtype=kind.dtype)
            leases.add(name, rows[1:2], kind.packed(move, COLUMNS))
            has[name][rows[1]] += move[0]
            content[rows[1]] += move[0]
    again = kind.leases(ROWS, COLUMNS)
    again.restore(leases.export())
    again.end(["a"])
    free = again.adopt("a", 99, every, kind.packed(torch.full_like(content, 99), COLUMNS))
    assert torch.equal(dense(kind.unpacked(free, COLUMNS)), (content - has["a"]).clamp(min=0))


def test_only_whole_numbers_can_be_leased() -> None:
    for wrong in (DenseRows(), Leased()):
        with pytest.raises(CompositionError, match="is counted in units"):
            Leased(wrong)
