"""Alias tables of many distributions at once: a draw of any of them takes the same time, whatever the number of outcomes."""

from __future__ import annotations

import numpy as np

from polyrhythm.workloads.topics.drawing import AliasRows, Counts, Reals, Totals
from polyrhythm.workloads.topics.loops import alias


def alias_rows(starts: Totals, topics: Counts, weights: Reals) -> AliasRows:
    """Tables of rows of outcomes with these weights, each above zero (Vose, 1991)."""
    rows = len(starts) - 1
    lengths = np.diff(starts)
    mass = np.bincount(np.repeat(np.arange(rows), lengths), weights, minlength=rows).astype(np.float64)
    keep = weights * np.repeat(lengths / np.maximum(mass, np.finfo(float).tiny), lengths)
    others = topics.copy()
    alias(starts, topics, keep, others)
    return AliasRows(starts, topics, keep, others, mass)


def alias_rows_of_counts(counts: Counts, denominators: Reals) -> AliasRows:
    """Tables of the counts (rows, topics) over `denominators` (topics,), without those that are not above zero."""
    places = np.flatnonzero(counts > 0)
    rows, topics = np.divmod(places, counts.shape[1])
    starts = np.concatenate([[0], np.bincount(rows, minlength=len(counts)).cumsum()])
    return alias_rows(starts, topics.astype(np.int32), counts.reshape(-1)[places] / denominators[topics])
