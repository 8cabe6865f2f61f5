"""What draws of topics are made of: counts, alias tables of proposals, and the tokens to draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int32]
Totals = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class AliasRows:
    """Row r has the outcomes from `starts[r]` to before `starts[r + 1]`: `topics`, kept with probability `keep`, else `others`.

    `mass` (rows,) are the sums of the weights. (Walker, 1977.)
    """

    starts: Totals
    topics: Counts
    keep: Reals
    others: Counts
    mass: Reals


@dataclass(frozen=True, slots=True)
class Priors:
    """The Dirichlet parameters of topics in a document and of words in a topic, and the number of words."""

    alpha: float
    beta: float
    vocabulary: int


@dataclass(frozen=True, eq=False, slots=True)
class TokenBatch:
    """Tokens to draw: their `places` among all, ascending, and the row of each one's word in the slice."""

    places: Totals
    rows: Counts


@dataclass(frozen=True, eq=False, slots=True)
class Drawing:
    """Counts of topics by word (rows, topics) and in all (topics,), those that proposals are made of, and the tables of these.

    `words` are the proposals of each word, `smooth` those that the prior adds to every one.
    """

    counts: Counts
    totals: Totals
    proposed: Counts
    proposed_totals: Totals
    words: AliasRows
    smooth: AliasRows
    priors: Priors
    cycles: int
