"""Reads and updates of many rows by a list are those of one row at a time."""

import pytest
import torch

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging import KeyedRows

KEYS = [f"row {k}" for k in range(6)]


def test_a_batch_by_its_list_is_each_key_by_itself() -> None:
    rows = torch.arange(12.0).reshape(6, 2)
    table, each = KeyedRows(KEYS, rows.clone()), KeyedRows(KEYS, rows.clone())
    chosen, values = ["row 4", "row 1", "row 4"], torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    batch = table.prepare(chosen)
    assert torch.equal(table.read(batch), each.read_each(chosen))
    table.update(batch, values)
    each.update_each(chosen, values)
    assert torch.equal(table.rows, each.rows)


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(CompositionError, match="no row of 'x'"):
        KeyedRows(KEYS, torch.zeros(6, 2)).prepare(["x"])
    with pytest.raises(CompositionError, match="one key"):
        KeyedRows(["a", "a"], torch.zeros(2, 2))
