"""Alias tables of many distributions at once: a draw of any of them takes the same time, whatever the number of outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.loops import alias

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class AliasRows:
    """Row r has the outcomes from `starts[r]` to before `starts[r + 1]`: `topics`, kept with probability `keep`, else `others`.

    `mass` (rows,) are the sums of the weights. (Walker, 1977; built as by Vose, 1991.)
    """

    starts: NDArray[np.int64]
    topics: NDArray[np.int32]
    keep: Reals
    others: NDArray[np.int32]
    mass: Reals

    @staticmethod
    def of(starts: NDArray[np.int64], topics: NDArray[np.int32], weights: Reals) -> AliasRows:
        """Tables of rows of outcomes with these weights, each above zero."""
        rows = len(starts) - 1
        lengths = np.diff(starts)
        mass = np.bincount(np.repeat(np.arange(rows), lengths), weights, minlength=rows).astype(np.float64)
        keep = weights * np.repeat(lengths / np.maximum(mass, np.finfo(float).tiny), lengths)
        others = topics.copy()
        alias(starts, topics, keep, others)
        return AliasRows(starts, topics, keep, others, mass)

    @staticmethod
    def of_counts(counts: NDArray[np.int32], denominators: Reals) -> AliasRows:
        """Tables of the counts (rows, topics) over `denominators` (topics,), without those that are not above zero."""
        rows, topics = np.nonzero(counts > 0)
        starts = np.concatenate([[0], np.bincount(rows, minlength=len(counts)).cumsum()])
        return AliasRows.of(starts, topics.astype(np.int32), counts[rows, topics] / denominators[topics])
