"""Rank correlation: the degree to which two rows of numbers rise together, whatever their scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: that of the ranks, of which equal numbers share the mean. Not a number where all of a row are equal."""
    a, b = (_ranks(row) for row in (first, second))
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else math.nan


def _ranks(row: Sequence[float]) -> np.ndarray:
    _, places, counts = np.unique(np.asarray(row, dtype=float), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]
