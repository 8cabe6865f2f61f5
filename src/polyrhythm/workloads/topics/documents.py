"""Documents as bags of numbered words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents one after the other: `words` (tokens,) are numbers below `vocabulary`, and `bounds` (documents + 1,) where each begins.

    `names` are the words by number, where they are known.
    """

    words: NDArray[np.int32]
    bounds: Integers
    vocabulary: int
    names: tuple[str, ...] = field(default=(), repr=False)

    @staticmethod
    def of(documents: Sequence[Sequence[int]], vocabulary: int, names: tuple[str, ...] = ()) -> Documents:
        """Documents given as sequences of numbers of words."""
        lengths = np.array([len(each) for each in documents], dtype=np.int64)
        words = np.fromiter((word for each in documents for word in each), dtype=np.int32, count=int(lengths.sum()))
        return Documents(words, np.concatenate([[0], lengths.cumsum()]), vocabulary, names)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def tokens(self) -> int:
        """The number of words, each counted as often as it occurs."""
        return len(self.words)

    @property
    def lengths(self) -> Integers:
        """The number of tokens of each document."""
        return np.diff(self.bounds)

    @property
    def document_of(self) -> NDArray[np.int32]:
        """The document of each token (tokens,)."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def chosen(self, documents: Integers) -> Documents:
        """These documents, with the same vocabulary."""
        lengths = self.lengths[documents]
        bounds = np.concatenate([[0], lengths.cumsum()])
        places = np.arange(bounds[-1]) + np.repeat(self.bounds[documents] - bounds[:-1], lengths)
        return Documents(self.words[places], bounds, self.vocabulary, self.names)

    def halves(self) -> tuple[Documents, Documents]:
        """Every other token of each document, and the others."""
        place = np.arange(self.tokens) - np.repeat(self.bounds[:-1], self.lengths)
        parts = []
        for first in (0, 1):
            taken = place % 2 == first
            counts = np.bincount(self.document_of[taken], minlength=len(self))
            parts.append(Documents(self.words[taken], np.concatenate([[0], counts.cumsum()]), self.vocabulary, self.names))
        return parts[0], parts[1]
