"""Documents that are generated from topics, by the model that latent Dirichlet allocation assumes (Blei et al., 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core import rng
from polyrhythm.workloads.topics.documents import Documents

_CONCENTRATION = 20.0
"""Of the words of a topic, times the vocabulary's shares: smaller is fewer words."""


@dataclass(frozen=True, slots=True)
class PlantedTopics:
    """`documents` of about `length` words, each from few of `topics` topics; words are the rarer the higher their number is."""

    documents: int
    length: int
    vocabulary: int
    topics: int
    mixing: float = 0.1
    """The Dirichlet parameter of the topics of a document."""

    def topic_words(self, seed: int) -> NDArray[np.float64]:
        """The probabilities of words in each topic (topics, vocabulary)."""
        draw = rng.stream(seed, "lda", "topics")
        shares = 1.0 / (np.arange(self.vocabulary) + 10.0)
        weights = draw.gamma(_CONCENTRATION * shares / shares.sum(), size=(self.topics, self.vocabulary)) + 1e-12
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def drawn(self, seed: int) -> Documents:
        """The documents."""
        draw, words = rng.stream(seed, "lda", "documents"), self.topic_words(seed).cumsum(axis=1)
        found: list[list[int]] = []
        for length in draw.poisson(self.length, self.documents).clip(min=2):
            mixture = draw.dirichlet(np.full(self.topics, self.mixing))
            counts = draw.multinomial(length, mixture)
            picks = [words[k].searchsorted(draw.random(count)) for k, count in enumerate(counts) if count]
            found.append(draw.permutation(np.concatenate(picks).clip(max=self.vocabulary - 1)).tolist())
        return Documents.of(found, self.vocabulary)
