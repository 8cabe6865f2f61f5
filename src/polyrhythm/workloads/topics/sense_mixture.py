"""The skip-gram mixture: every word has vectors of several senses, and each occurrence is of one of them (Tian et al., COLING 2014).

Contexts are compared with noise words instead of all words (negative sampling; Mikolov et al., 2013), in posteriors as in gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from polyrhythm.workloads.topics.documents import Documents


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Occurrences of words (n,) with the words around each (n, 2 * window); `there` (n, 2 * window) is False beyond a document's ends."""

    words: Tensor
    around: Tensor
    there: Tensor

    @staticmethod
    def of(documents: Documents, window: int, places: NDArray[np.int64] | None = None) -> Occurrences:
        """The occurrences at these `places` among the tokens, or at all."""
        at = np.arange(documents.tokens) if places is None else places
        offsets = np.delete(np.arange(-window, window + 1), window)
        near = at[:, None] + offsets
        inside = near.clip(0, documents.tokens - 1)
        there = (near == inside) & (documents.document_of[inside] == documents.document_of[at][:, None])
        words = torch.from_numpy(documents.words).long()
        return Occurrences(words[torch.from_numpy(at)], words[torch.from_numpy(inside)], torch.from_numpy(there))

    def __len__(self) -> int:
        return len(self.words)

    def numbered(self, number: Tensor) -> Occurrences:
        """The same with word w called `number[w]`."""
        return Occurrences(number[self.words], number[self.around], self.there)

    def __getitem__(self, which: Tensor) -> Occurrences:
        return Occurrences(self.words[which], self.around[which], self.there[which])


@dataclass(frozen=True, eq=False)
class SenseVectors:
    """The vectors of senses (words, senses, dimensions) and contexts (contexts, dimensions), and how often each sense occurred.

    Contexts are the words in the same order, and perhaps further ones. `counts` (words, senses) are sums of posteriors. All of it changes
    in place.
    """

    senses: Tensor
    contexts: Tensor
    counts: Tensor

    @staticmethod
    def of(rows: Tensor, counts: Tensor) -> SenseVectors:
        """The vectors in `rows` (senses * words + contexts, dimensions): those of senses, word by word, then those of contexts."""
        words, senses = counts.shape
        return SenseVectors(rows[: words * senses].view(words, senses, -1), rows[words * senses :], counts)


@dataclass(frozen=True, slots=True)
class SenseMixture:
    """The objective: `negatives` noise words for each word of a context, and `alpha`, the Dirichlet parameter of the senses of a word."""

    negatives: float
    alpha: float

    def posteriors(self, vectors: SenseVectors, seen: Occurrences, noise: Tensor) -> Tensor:
        """The probabilities of the senses of each occurrence (n, senses), by the words around it; `noise` (m,) are noise words."""
        return self._scored(vectors, seen, noise)[0]

    def learn(self, vectors: SenseVectors, seen: Occurrences, noise: Tensor, rate: float) -> None:
        """One step of EM on these occurrences: posteriors, then a gradient step of length `rate` that is weighted by them."""
        posterior, positive, negative = self._scored(vectors, seen, noise)
        pull = posterior.unsqueeze(2) * torch.sigmoid(-positive) * seen.there.unsqueeze(1)  # (n, senses, around)
        push = -posterior.unsqueeze(2) * torch.sigmoid(negative) * self._weight(seen, noise)[:, None, None]  # (n, senses, m)
        own, around, others = vectors.senses[seen.words], vectors.contexts[seen.around], vectors.contexts[noise]
        to_context = pull.transpose(1, 2) @ own
        to_noise = torch.einsum("nsm,nsd->md", push, own)
        vectors.senses.index_add_(0, seen.words, pull @ around + push @ others, alpha=rate)
        vectors.contexts.index_add_(0, seen.around.flatten(), to_context.flatten(0, 1), alpha=rate)
        vectors.contexts.index_add_(0, noise, to_noise, alpha=rate)
        vectors.counts.index_add_(0, seen.words, posterior)

    def _scored(self, vectors: SenseVectors, seen: Occurrences, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Posteriors (n, senses), and scores of the words around (n, senses, around) and of noise words (n, senses, m)."""
        own = vectors.senses[seen.words]
        positive = own @ vectors.contexts[seen.around].transpose(1, 2)
        negative = own @ vectors.contexts[noise].T
        likely = (logsigmoid(positive) * seen.there.unsqueeze(1)).sum(dim=2)
        likely += self._weight(seen, noise)[:, None] * logsigmoid(-negative).sum(dim=2)
        counts = vectors.counts[seen.words] + self.alpha
        return torch.softmax(likely + counts.log(), dim=1), positive, negative

    def _weight(self, seen: Occurrences, noise: Tensor) -> Tensor:
        """How often each noise word counts for an occurrence (n,): all occurrences of a block share their noise words."""
        return seen.there.sum(dim=1) * (self.negatives / len(noise))
