"""Every case of every test has its turn, and a turn is short."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from turns import BUDGET, chosen


@given(name=st.text(max_size=20), count=st.integers(1, 200), seconds=st.floats(0.0, 30.0), first=st.integers(0, 10**6))
def test_every_case_has_its_turn_once_in_a_round(name: str, count: int, seconds: float, first: int) -> None:
    turns = max(1, math.ceil(count * seconds / BUDGET))
    seen = [place for number in range(first, first + turns) for place in chosen(name, count, seconds, number)]
    assert sorted(seen) == list(range(count))


@given(count=st.integers(1, 200), seconds=st.floats(0.0, 0.5), number=st.integers(0, 10**6))
def test_a_turn_takes_no_longer_than_it_may(count: int, seconds: float, number: int) -> None:
    assert len(list(chosen("test", count, seconds, number))) * seconds <= BUDGET + seconds
