"""Texts in which some words have two senses: generated ones, and texts of people in which pairs of words are made one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core import rng
from polyrhythm.errors import DataError
from polyrhythm.workloads.topics.documents import Documents, Integers

_BACKGROUND = 0.3
"""The share of words of a generated document that say nothing of its topic."""
_PLANTED = 0.15
"""The share of those that have another sense in another topic."""
_FREQUENT = 30
"""The most frequent words of a text that are not merged: they are everywhere, and have no context of their own."""


@dataclass(frozen=True, eq=False)
class PlantedSenses:
    """Documents whose words (tokens,) include some of two senses: word `first + k` is the k-th of them.

    `senses` (tokens,) is 0 or 1 where such a word stands, else -1. `contexts` (vocabulary,) is the topic of each word, -1 where it has
    none or is planted, and `pairs` (planted, 2) the two topics of each planted word; of texts of people neither is known, and both are
    empty.
    """

    documents: Documents
    first: int
    senses: NDArray[np.int8]
    contexts: Integers
    pairs: Integers

    @property
    def planted(self) -> int:
        """The number of words with two senses."""
        return self.documents.vocabulary - self.first

    def divided(self, share: float) -> tuple[PlantedSenses, PlantedSenses]:
        """The documents to train on, and those held out: one of each 1 / `share`."""
        held_out = np.arange(len(self.documents)) % round(1 / share) == 0
        return self._chosen(~held_out), self._chosen(held_out)

    def _chosen(self, which: NDArray[np.bool_]) -> PlantedSenses:
        tokens = np.repeat(which, self.documents.lengths)
        return PlantedSenses(self.documents.chosen(np.flatnonzero(which)), self.first, self.senses[tokens], self.contexts, self.pairs)


@dataclass(frozen=True, slots=True)
class SharedWords:
    """`documents` of `length` words, each of one of `topics` topics; `planted` words belong to two topics each, `vocabulary` are all.

    A third of the words of a document are of a background that all topics share, a seventh or so are planted; words are the rarer the
    later they come in their topic.
    """

    documents: int
    length: int
    vocabulary: int
    topics: int
    planted: int

    def drawn(self, seed: int) -> PlantedSenses:
        """The documents."""
        draw = rng.stream(seed, "word-senses", "documents")
        first = self.vocabulary - self.planted
        contexts = np.concatenate([np.arange(first) % (self.topics + 1) - 1, np.full(self.planted, -1)])
        ones = np.arange(self.planted) % self.topics  # so that each topic has about as many
        pairs = np.stack([ones, (ones + draw.integers(1, self.topics, self.planted)) % self.topics], axis=1)
        topic_of = draw.integers(0, self.topics, self.documents)
        words = np.stack([self._document(int(topic), contexts[:first], first, pairs, draw) for topic in topic_of])
        second = pairs[(words - first).clip(min=0), 1] == topic_of[:, None]
        senses = np.where(words < first, -1, second).astype(np.int8)
        bounds = np.arange(self.documents + 1, dtype=np.int64) * self.length
        documents = Documents(words.ravel().astype(np.int32), bounds, self.vocabulary)
        return PlantedSenses(documents, first, senses.ravel(), contexts, pairs)

    def _document(self, topic: int, contexts: Integers, first: int, pairs: Integers, draw: np.random.Generator) -> Integers:
        background, own = np.flatnonzero(contexts == -1), np.flatnonzero(contexts == topic)
        shared = first + np.flatnonzero((pairs == topic).any(axis=1))
        kind = draw.random(self.length)
        words = _zipf(own, self.length, draw)
        words = np.where(kind < _BACKGROUND, _zipf(background, self.length, draw), words)
        if not len(shared):
            return words
        return np.where(kind > 1 - _PLANTED, draw.choice(shared, self.length), words)


def merged(text: Documents, planted: int) -> PlantedSenses:
    """A text in which `planted` pairs of words are made one word each, a pseudo-word whose senses are the two (Gale et al., 1992).

    Pairs are neighbours by frequency, so that both senses are about as frequent, after the 30 most frequent words. Raises DataError for a
    text that has too few words.
    """
    if text.vocabulary < _FREQUENT + 2 * planted + 1:
        raise DataError(
            f"A text of {text.vocabulary} different words has no {planted} pairs after the {_FREQUENT} most frequent ones: give a longer "
            "text, a larger vocabulary, or fewer planted words."
        )
    order = np.argsort(-np.bincount(text.words, minlength=text.vocabulary), kind="stable")
    members = order[_FREQUENT : _FREQUENT + 2 * planted]
    left = np.setdiff1d(np.arange(text.vocabulary), members)
    number, sense = np.empty(text.vocabulary, dtype=np.int32), np.full(text.vocabulary, -1, dtype=np.int8)
    number[left] = np.arange(len(left))
    number[members], sense[members] = len(left) + np.arange(2 * planted) // 2, np.arange(2 * planted) % 2
    names = tuple(_names(text.names, left, members)) if text.names else ()
    documents = Documents(number[text.words], text.bounds, len(left) + planted, names)
    return PlantedSenses(documents, len(left), sense[text.words], np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64))


def _names(names: tuple[str, ...], left: Integers, members: Integers) -> Iterator[str]:
    yield from (names[k] for k in left)
    yield from (f"{names[one]}/{names[other]}" for one, other in members.reshape(-1, 2))


def _zipf(words: Integers, count: int, draw: np.random.Generator) -> Integers:
    weights = 1 / (np.arange(len(words)) + 5.0)
    return draw.choice(words, count, p=weights / weights.sum())
