"""The part of a topic model that a worker has at a time, and the draws that it makes with it."""

from __future__ import annotations

import numpy as np

from polyrhythm.workloads.topics.alias_rows import alias_rows, alias_rows_of_counts
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Counts, Drawing, Priors, TokenBatch, Totals
from polyrhythm.workloads.topics.loops import draw


class ModelSlice:
    """Counts of topics for the words of a block (rows, topics), and of each topic over all words (topics,).

    Proposals are made from alias tables of the counts as they were at first, acceptance is decided with those of now (LightLDA; Yuan et
    al., WWW 2015). A cycle makes a proposal of the word's topics, then one of the document's.
    """

    def __init__(self, counts: Counts, totals: Totals, priors: Priors, cycles: int) -> None:
        self.counts, self.totals = counts, totals
        denominators = totals.clip(min=0) + priors.beta * priors.vocabulary
        words = alias_rows_of_counts(counts, denominators)
        smooth = alias_rows(np.array([0, len(totals)]), np.arange(len(totals), dtype=np.int32), priors.beta / denominators)
        self.drawing = Drawing(counts, totals, counts.copy(), totals.copy(), words, smooth, priors, cycles)

    def draw(self, documents: Documents, topics: Counts, batch: TokenBatch, key: int) -> None:
        """Draw the tokens of a batch anew, in `topics` (tokens,), which has -1 for tokens that others hold, and count the changes.

        Tokens of a document are drawn one after another. The counts of words stay as they are until all are drawn. `key` is of a random
        stream, and used once.
        """
        before = topics[batch.places]
        draw(self.drawing, documents, topics, batch, key)
        after = topics[batch.places]
        changed = (before != after).nonzero()[0]
        rows, old, new = batch.rows[changed].astype(np.int64), before[changed], after[changed]
        width = len(self.totals)
        flat = self.counts.reshape(-1)
        np.subtract.at(flat, rows * width + old, np.int32(1))
        np.add.at(flat, rows * width + new, np.int32(1))
        self.totals += np.bincount(new, minlength=width) - np.bincount(old, minlength=width)
