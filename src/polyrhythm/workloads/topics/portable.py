"""The inner loops of LightLDA with numpy, for where there was no C compiler: what each of them does.

All results are those of `_light_lda.c`, to the bit: sums and products are of the same numbers in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Counts, Drawing, TokenBatch

Reals = NDArray[np.float64]
Integers = NDArray[Any]


def uniform(key: int, places: Integers) -> Reals:
    """Numbers in [0, 1) by their places in a random stream: SplitMix64 of a counter (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        x = np.uint64(key) + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def alias(starts: NDArray[np.int64], topics: NDArray[np.int32], keep: Reals, others: NDArray[np.int32]) -> None:
    """Turn weights of mean 1 into the probabilities to keep an outcome, and set the outcomes instead: Vose's, all rows at once."""
    rows, lengths = len(starts) - 1, np.diff(starts)
    row_of = np.repeat(np.arange(rows), lengths)
    small, large = (_stacks(row_of, member, rows, int(lengths.max(initial=0))) for member in (keep < 1.0, keep >= 1.0))
    smalls, larges = np.bincount(row_of[keep < 1.0], minlength=rows), np.bincount(row_of[keep >= 1.0], minlength=rows)
    while len(rows_left := ((smalls > 0) & (larges > 0)).nonzero()[0]):
        smalls[rows_left] -= 1
        s, into = small[rows_left, smalls[rows_left]], large[rows_left, larges[rows_left] - 1]
        others[s] = topics[into]
        keep[into] = (keep[into] + keep[s]) - 1.0
        fallen = keep[into] < 1.0
        less = rows_left[fallen]
        larges[less] -= 1
        small[less, smalls[less]] = into[fallen]
        smalls[less] += 1
    for stack, heights in ((small, smalls), (large, larges)):
        keep[stack[np.arange(stack.shape[1]) < heights[:, None]]] = 1.0


def _stacks(row_of: Integers, member: NDArray[np.bool_], rows: int, width: int) -> NDArray[np.int64]:
    """The places of the members of each row, in order (rows, width)."""
    places = member.nonzero()[0]
    own = row_of[places]
    stacks = np.zeros((rows, width), dtype=np.int64)
    stacks[own, np.arange(len(own)) - np.searchsorted(own, own)] = places
    return stacks


def draw(part: Drawing, documents: Documents, topics: Counts, batch: TokenBatch, key: int) -> None:
    """Draw tokens in `topics`: at once the first of each document that is to be drawn, then the second ones, and so on."""
    document = documents.bounds.searchsorted(batch.places, "right") - 1
    here, local = np.unique(document, return_inverse=True)
    counted = np.zeros((len(here), len(part.totals)), dtype=np.int64)
    for k, each in enumerate(here):
        there = topics[documents.bounds[each] : documents.bounds[each + 1]]
        counted[k] = np.bincount(there[there >= 0], minlength=len(part.totals))
    order = np.arange(len(document)) - np.searchsorted(document, document)
    for layer in range(int(order.max(initial=-1)) + 1):
        chosen = (order == layer).nonzero()[0]
        _Layer(part, documents, topics, counted, local[chosen]).draw(batch.places[chosen], batch.rows[chosen], key)


class _Layer:
    """Tokens of different documents; `counted` are the topics of each document, and `local` the row there of each token's."""

    def __init__(self, part: Drawing, documents: Documents, topics: Counts, counted: Integers, local: Integers) -> None:
        self.part, self.documents, self.topics, self.counted, self.local = part, documents, topics, counted, local
        self.alpha, self.beta = part.priors.alpha, part.priors.beta
        self.sum_of_betas = part.priors.beta * part.priors.vocabulary

    def draw(self, places: Integers, rows: Integers, key: int) -> None:
        part, topics, width = self.part, self.topics, len(self.part.totals)
        document = self.documents.bounds.searchsorted(places, "right") - 1
        start = self.documents.bounds[document]
        tokens = (self.documents.bounds[document + 1] - start).astype(np.float64)
        own = topics[places].astype(np.int64)
        for cycle in range(part.cycles):
            u = [uniform(key, (places * part.cycles + cycle) * 8 + k) for k in range(5)]
            s, t = topics[places].astype(np.int64), self._by_word(rows, u[0], u[1])
            to = self._weight(self.counted[self.local, t] + self.alpha, (rows, t, s), own)
            rest = self._weight(self.counted[self.local, s] - 1 + self.alpha, (rows, s, t), own)
            self._move(places, s, t, (t != s) & (u[2] * rest < to))
            s = topics[places].astype(np.int64)
            x = u[3] * (tokens + width * self.alpha)
            within = np.minimum(x.astype(np.int64), tokens.astype(np.int64) - 1)
            beyond = np.minimum(((x - tokens) / self.alpha).astype(np.int64), width - 1)
            t = np.where(x < tokens, topics[start + within], beyond)
            known = np.maximum(t, 0)
            to, rest = self._of_word(rows, known, own) * self._of_topic(s, own), self._of_word(rows, s, own) * self._of_topic(known, own)
            self._move(places, s, known, (t >= 0) & (t != s) & (u[4] * rest < to))

    def _move(self, places: Integers, s: Integers, t: Integers, accepted: NDArray[np.bool_]) -> None:
        self.topics[places[accepted]] = t[accepted]
        self.counted[self.local[accepted], s[accepted]] -= 1
        self.counted[self.local[accepted], t[accepted]] += 1

    def _by_word(self, rows: Integers, u: Reals, v: Reals) -> Integers:
        """Proposals from the alias tables of the words, or from that of what the prior adds to each."""
        words, smooth, width = self.part.words, self.part.smooth, len(self.part.totals)
        mass, starts = words.mass[rows], words.starts[rows]
        sparse, n = u * (mass + smooth.mass[0]) < mass, words.starts[rows + 1] - starts
        x = v * np.where(sparse, n, width).astype(np.float64)
        i = np.minimum(x.astype(np.int64), np.where(sparse, n, width) - 1)
        place = np.where(sparse, starts + i, 0)
        kept = x - i < np.where(sparse, words.keep[place], smooth.keep[i]) if len(words.keep) else x - i < smooth.keep[i]
        if not len(words.keep):
            return np.asarray(np.where(kept, i, smooth.others[i]))
        topics = np.where(kept, np.where(sparse, words.topics[place], i), np.where(sparse, words.others[place], smooth.others[i]))
        return np.asarray(topics.astype(np.int64))

    def _of_word(self, rows: Integers, t: Integers, own: Integers) -> Reals:
        """n_tw + β without the token."""
        return np.asarray(np.maximum(self.part.counts[rows, t] - (t == own), 0) + self.beta)

    def _of_topic(self, t: Integers, own: Integers) -> Reals:
        """n_t + Vβ without the token."""
        return np.asarray(np.maximum(self.part.totals[t] - (t == own), 0) + self.sum_of_betas)

    def _weight(self, of_document: Reals, move: tuple[Integers, Integers, Integers], own: Integers) -> Reals:
        """The weight of topic t against s: the target's for t, times what proposes s."""
        rows, t, s = move
        proposed = np.maximum(self.part.proposed[rows, s], 0) + self.beta
        totals = np.maximum(self.part.proposed_totals[t], 0) + self.sum_of_betas
        return np.asarray(of_document * self._of_word(rows, t, own) * self._of_topic(s, own) * proposed * totals)
