"""How much two rows rise together."""

from __future__ import annotations

import math

import pytest

from polyrhythm_reproductions.ranks import rank_correlation


def test_only_the_order_counts() -> None:
    assert rank_correlation([1, 2, 3], [1, 10, 1000]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [5.0, 0.1, -7]) == pytest.approx(-1.0)


def test_equal_numbers_share_their_mean_rank() -> None:
    assert rank_correlation([1, 2, 3, 4], [1, 1, 0, 0]) == pytest.approx(-0.8944, abs=1e-4)


def test_a_row_of_equal_numbers_has_none() -> None:
    assert math.isnan(rank_correlation([1, 2, 3], [4, 4, 4]))
