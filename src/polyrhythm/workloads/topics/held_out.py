"""How well topics predict words that were held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.documents import Documents

Reals = NDArray[np.float64]
_ITERATIONS = 30


def topic_words(counts: NDArray[np.int64], beta: float) -> Reals:
    """The probabilities of words in topics (vocabulary, topics) from counts of the same shape."""
    smoothed = counts.clip(min=0) + beta
    return np.asarray(smoothed / smoothed.sum(axis=0))


def log_likelihood(words: Reals, documents: Documents, alpha: float) -> float:
    """The mean log-probability of a token of `documents`, given every other token of its document, and topics `words` (vocabulary, topics).

    Document completion (Wallach et al., 2009): the shares of topics are estimated from one half of a document by expectation maximisation
    with a Dirichlet prior, whose parameter for each topic is `alpha` + 1, and predict the other half.
    """
    known, asked = documents.halves()
    topics = words.shape[1]
    given, place = words[known.words], known.document_of
    shares = np.full((len(documents), topics), 1.0 / topics)
    starts = known.bounds[:-1]
    for _ in range(_ITERATIONS):
        weights = shares[place] * given
        weights /= weights.sum(axis=1, keepdims=True)
        shares = np.add.reduceat(weights, starts, axis=0) + alpha
        shares /= shares.sum(axis=1, keepdims=True)
    return float(np.log((shares[asked.document_of] * words[asked.words]).sum(axis=1)).mean())
