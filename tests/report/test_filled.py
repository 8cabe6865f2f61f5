"""Columns that hold nothing are left out, of every table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.tools.cli import output
from polyrhythm.tools.report.filled import filled, only_filled

CELLS = st.sampled_from(["", "–", " ", "0", "a"])


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_what_is_left_out_holds_nothing_and_what_is_kept_something(rows: list[list[str]]) -> None:
    kept = filled(["name", "cost", "time"], rows)
    assert kept[0] == 0
    for place in (1, 2):
        assert (place in kept) == any(row[place] in ("0", "a") for row in rows)
    columns, cells = only_filled(["name", "cost", "time"], rows)
    assert [len(row) for row in cells] == [len(columns)] * len(rows)


def test_a_table_on_the_terminal_has_no_empty_column_and_one_without_rows_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_rows(["job", "cost", "ends"], [["a", "", "1 s"], ["b", "", "2 s"]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["job", "ends"], ["a", "1", "s"], ["b", "2", "s"]]
    output.print_rows(["job", "cost", "ends"], [])
    assert capsys.readouterr().out == ""
    output.print_beside(["job", "cost", "ends"], [["a", "–", "1 s"], ["b", "–", "2 s"]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["job", "a", "b"], ["ends", "1", "s", "2", "s"]]
