"""The part of a topic model that a worker has at a time, and the draws that it makes with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.alias_rows import AliasRows
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.loops import draw

Counts = NDArray[np.int32]
Totals = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Priors:
    """The Dirichlet parameters of topics in a document and of words in a topic, and the number of words."""

    alpha: float
    beta: float
    vocabulary: int


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Tokens to draw: their `places` among all, ascending, and the row of each one's word in the slice."""

    places: Totals
    rows: Counts


class ModelSlice:
    """Counts of topics for the words of a block (rows, topics), and of each topic over all words (topics,).

    Proposals are made from alias tables of the counts as they were at first, acceptance is decided with those of now (LightLDA; Yuan et
    al., WWW 2015). A cycle makes a proposal of the word's topics, then one of the document's.
    """

    def __init__(self, counts: Counts, totals: Totals, priors: Priors, cycles: int) -> None:
        self.counts, self.totals, self.priors, self.cycles = counts, totals, priors, cycles
        self.proposed, self.proposed_totals = counts.copy(), totals.copy()
        denominators = totals.clip(min=0) + priors.beta * priors.vocabulary
        self.words = AliasRows.of_counts(counts, denominators)
        topics = np.arange(len(totals), dtype=np.int32)
        self.smooth = AliasRows.of(np.array([0, len(totals)]), topics, priors.beta / denominators)

    def draw(self, documents: Documents, topics: Counts, batch: Batch, key: int) -> None:
        """Draw the tokens of a batch anew, in `topics` (tokens,), which has -1 for tokens that others hold, and count the changes.

        Tokens of a document are drawn one after another. The counts of words stay as they are until all are drawn. `key` is of a random
        stream, and used once.
        """
        before = topics[batch.places]
        draw(self, documents, topics, batch, key)
        after = topics[batch.places]
        changed = (before != after).nonzero()[0]
        rows, old, new = batch.rows[changed].astype(np.int64), before[changed], after[changed]
        width = len(self.totals)
        flat = self.counts.reshape(-1)
        np.subtract.at(flat, rows * width + old, np.int32(1))
        np.add.at(flat, rows * width + new, np.int32(1))
        self.totals += np.bincount(new, minlength=width) - np.bincount(old, minlength=width)
