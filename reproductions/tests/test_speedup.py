"""SparkNet's model of its speed-up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.speedup import averaging_speedup, break_even_rounds, splitting_speedup

seconds, several, counts = st.floats(1e-3, 1e3), st.integers(1, 100), st.floats(1, 1e5)


def test_the_papers_figures() -> None:
    """S = 20 C: with τ = 50 and ten rounds in place of 1000 iterations averaging is 1.4 times as fast as one worker."""
    assert averaging_speedup(1000, 10, 1.0, 20.0, tau=50) == pytest.approx(1000 / 700)
    assert splitting_speedup(5, 1.0, 20.0) == pytest.approx(1 / 20.2)
    assert averaging_speedup(1000, 10, 1.0, 20.0, tau=50) / averaging_speedup(1000, 500, 1.0, 20.0, tau=1) == pytest.approx(21 * 500 / 700)


@given(iterations=counts, c=seconds, s=seconds, tau=several, workers=several)
def test_at_as_many_rounds_as_break_even_both_are_as_fast(iterations: float, c: float, s: float, tau: int, workers: int) -> None:
    rounds = break_even_rounds(iterations, c, s, tau, workers)
    assert averaging_speedup(iterations, rounds, c, s, tau) == pytest.approx(splitting_speedup(workers, c, s))


@given(c=seconds, workers=several)
def test_exchanges_that_take_no_time_leave_the_number_of_workers(c: float, workers: int) -> None:
    assert splitting_speedup(workers, c, 0.0) == pytest.approx(workers)
    assert averaging_speedup(100, 100 / workers, c, 0.0, tau=1) == pytest.approx(workers)


@given(c=seconds, s=seconds, workers=several)
def test_splitting_is_never_faster_than_its_exchanges_allow(c: float, s: float, workers: int) -> None:
    assert splitting_speedup(workers, c, s) <= min(workers, c / s) * (1 + 1e-9)


def test_numbers_without_meaning_are_refused() -> None:
    for wrong in (
        lambda: averaging_speedup(0, 1, 1, 1, 1),
        lambda: averaging_speedup(1, 1, 1, -1, 1),
        lambda: splitting_speedup(0, 1, 1),
        lambda: break_even_rounds(1, 1, 1, 0, 1),
    ):
        with pytest.raises(CompositionError, match="give"):
            wrong()
