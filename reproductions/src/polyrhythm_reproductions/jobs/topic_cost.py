"""CPU time of drawing the topics of tokens: by LightLDA's sampler, a block of words at a time, and by plain Gibbs sampling."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Priors, TokenBatch
from polyrhythm.workloads.topics.slices import ModelSlice

ALPHA, BETA = 0.1, 0.01
_TOGETHER = 128
"""Tokens that plain Gibbs sampling draws at once, each of another document; fewer would measure the calls of numpy."""


class SweepSeconds(NamedTuple):
    """CPU seconds of a sweep: of draws, and of alias tables and copies of counts, which are made once for each block."""

    drawing: float
    making: float


class TopicState:
    """Topics of all tokens of `documents`, drawn uniformly from `topics` at first, and the counts of words (vocabulary, topics)."""

    def __init__(self, documents: Documents, topics: int, seed: int) -> None:
        self.documents, self.seed = documents, seed
        self.topics = np.random.default_rng(seed).integers(0, topics, documents.tokens).astype(np.int32)
        self.counts = np.zeros((documents.vocabulary, topics), dtype=np.int32)
        np.add.at(self.counts, (documents.words, self.topics), 1)

    @property
    def totals(self) -> NDArray[np.int64]:
        """The number of tokens of each topic."""
        return np.asarray(self.counts.sum(axis=0, dtype=np.int64))


class LightSweeps:
    """Sweeps as the workload `lda` makes them: of `blocks` blocks of words, with `cycles` cycles of proposals."""

    def __init__(self, state: TopicState, blocks: int, cycles: int) -> None:
        self.state, self.blocks, self.cycles, self.keys = state, blocks, cycles, state.seed << 32
        words = state.documents.words
        places = [np.flatnonzero(words % blocks == block) for block in range(blocks)]
        self.batches = [TokenBatch(each, (words[each] // blocks).astype(np.int32)) for each in places]

    def sweep(self) -> SweepSeconds:
        """Draw every token once."""
        state, drawing, making = self.state, 0.0, 0.0
        priors = Priors(ALPHA, BETA, state.documents.vocabulary)
        for block, batch in enumerate(self.batches):
            counts, totals = np.ascontiguousarray(state.counts[block :: self.blocks]), state.totals
            began = time.thread_time()
            part = ModelSlice(counts, totals, priors, self.cycles)
            made = time.thread_time()
            part.draw(state.documents, state.topics, batch, self.keys)
            drawing, making = drawing + time.thread_time() - made, making + made - began
            state.counts[block :: self.blocks] = counts
            self.keys += 1
        return SweepSeconds(drawing, making)


class PlainGibbs:
    """Draws from the whole conditional distribution of a token, whose weights of all topics are computed (Griffiths, Steyvers, 2004)."""

    def __init__(self, state: TopicState) -> None:
        self.state, self.draw = state, np.random.default_rng(state.seed)
        documents, width = state.documents, state.counts.shape[1]
        self.of_documents = np.zeros((len(documents), width), dtype=np.int32)
        np.add.at(self.of_documents, (documents.document_of, state.topics), 1)
        place = np.arange(documents.tokens) - documents.bounds[documents.document_of]
        self.order = np.lexsort((documents.document_of, place))  # the first token of each document, then the second of each

    def seconds(self, tokens: int) -> float:
        """CPU seconds to draw so many tokens, which are of different documents."""
        totals = self.state.totals
        began = time.thread_time()
        for start in range(0, tokens, _TOGETHER):
            self._draw(self.order[start : min(start + _TOGETHER, tokens)], totals)
        return time.thread_time() - began

    def _draw(self, places: NDArray[np.int64], totals: NDArray[np.int64]) -> None:
        state = self.state
        words, documents, old = state.documents.words[places], state.documents.document_of[places], state.topics[places]
        self._count(documents, words, old, -1)
        totals -= np.bincount(old, minlength=len(totals))
        weights = (self.of_documents[documents] + ALPHA) * (state.counts[words] + BETA)
        weights /= totals + BETA * state.documents.vocabulary
        sums = weights.cumsum(axis=1)
        new = (sums < self.draw.random((len(places), 1)) * sums[:, -1:]).sum(axis=1).astype(np.int32)
        state.topics[places] = new
        self._count(documents, words, new, 1)
        totals += np.bincount(new, minlength=len(totals))

    def _count(self, documents: NDArray[np.int32], words: NDArray[np.int32], topics: NDArray[np.int32], sign: int) -> None:
        np.add.at(self.of_documents, (documents, topics), sign)
        np.add.at(self.state.counts, (words, topics), sign)
