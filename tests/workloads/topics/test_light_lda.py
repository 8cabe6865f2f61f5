"""LightLDA's sampler: in C and in numpy the same, alias tables that are distributions, and draws from the exact posterior."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import lgamma
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from polyrhythm.workloads.topics import alias_rows, loops, portable, slices
from polyrhythm.workloads.topics.alias_rows import alias_rows_of_counts
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Priors, TokenBatch
from polyrhythm.workloads.topics.planted import PlantedTopics
from polyrhythm.workloads.topics.slices import ModelSlice

TOY = Documents.of([[0, 0, 1], [1, 2], [0, 2]], 3)
TOPICS = 3
PRIORS = Priors(alpha=0.5, beta=0.4, vocabulary=3)


def use(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    monkeypatch.setattr(alias_rows, "alias", module.alias)
    monkeypatch.setattr(slices, "draw", module.draw)


def counted(documents: Documents, topics: np.ndarray, width: int) -> np.ndarray:
    held = (topics >= 0).nonzero()[0]
    counts = np.zeros((documents.vocabulary, width), dtype=np.int32)
    np.add.at(counts, (documents.words[held], topics[held]), 1)
    return counts


def swept(documents: Documents, width: int, sweeps: int) -> list[np.ndarray]:
    """All that sweeps change, some tokens not being held."""
    topics = (portable.uniform(5, np.arange(documents.tokens)) * width).astype(np.int32)
    topics[::17] = -1
    counts = counted(documents, topics, width)
    part = ModelSlice(counts, counts.sum(axis=0).astype(np.int64), Priors(0.1, 0.01, documents.vocabulary), 2)
    held = (topics >= 0).nonzero()[0]
    for key in range(sweeps):
        for places in np.array_split(held, 3):
            part.draw(documents, topics, TokenBatch(places, documents.words[places]), 2**63 + key)
    return [topics, part.counts, part.totals, part.drawing.words.keep, part.drawing.words.others, part.drawing.smooth.keep]


def test_the_loops_in_c_and_in_numpy_have_equal_results(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = PlantedTopics(40, 30, 60, 5).drawn(1)
    found = []
    for module in (loops, portable):
        use(monkeypatch, module)
        found.append(swept(documents, 7, 2))
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    topics, counts, totals, *_ = found[0]
    assert np.array_equal(counts, counted(documents, topics, 7))
    assert np.array_equal(totals, counts.sum(axis=0))
    assert np.array_equal((topics < 0).nonzero()[0], np.arange(documents.tokens)[::17])


@pytest.mark.parametrize("module", [loops, portable], ids=["loops", "portable"])
def test_alias_tables_have_the_probabilities_of_the_weights(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, module)
    draw = np.random.default_rng(2)
    counts = (draw.integers(0, 40, (30, 9)) * draw.integers(0, 2, (30, 9))).astype(np.int32)
    counts[4] = 0
    denominators = draw.uniform(1, 3, 9)
    tables = alias_rows_of_counts(counts, denominators)
    for row in range(30):
        start, end = tables.starts[row : row + 2]
        share = np.zeros(9)
        np.add.at(share, tables.topics[start:end], tables.keep[start:end])
        np.add.at(share, tables.others[start:end], 1 - tables.keep[start:end])
        weights = counts[row] / denominators
        assert tables.mass[row] == pytest.approx(weights.sum())
        assert share * weights.sum() == pytest.approx((end - start) * weights)


def test_a_stream_of_numbers_is_uniform() -> None:
    u = portable.uniform(7, np.arange(200_000))
    assert abs(u.mean() - 0.5) < 0.003
    counts = np.histogram(u, 100, (0, 1))[0]
    assert chi2.sf(((counts - 2000) ** 2 / 2000).sum(), 99) > 0.001
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def posterior(documents: Documents, priors: Priors) -> np.ndarray:
    """The exact probability of every assignment, with topic 0 the first digit of its number."""
    logs = []
    for states in product(range(TOPICS), repeat=documents.tokens):
        z = np.array(states)
        of_documents = np.zeros((len(documents), TOPICS))
        np.add.at(of_documents, (documents.document_of, z), 1)
        of_words = counted(documents, z.astype(np.int32), TOPICS)
        log = sum(lgamma(n + priors.alpha) for n in of_documents.flat) + sum(lgamma(n + priors.beta) for n in of_words.flat)
        logs.append(log - sum(lgamma(n + priors.beta * priors.vocabulary) for n in of_words.sum(axis=0)))
    weights = np.exp(np.array(logs) - max(logs))
    return weights / weights.sum()


def light(documents: Documents, priors: Priors, topics: np.ndarray, cycles: int) -> Callable[[int], None]:
    """A sweep of single tokens, each with an alias table that is as old as the sweep."""

    def sweep(key: int) -> None:
        counts = counted(documents, topics, TOPICS)
        part = ModelSlice(counts, counts.sum(axis=0).astype(np.int64), priors, cycles)
        for place in range(documents.tokens):
            part.draw(documents, topics, TokenBatch(np.array([place]), documents.words[place : place + 1]), key * documents.tokens + place)

    return sweep


def p_value(documents: Documents, priors: Priors, samples: int, every: int, wrong: float = 0.0) -> float:
    """Of a χ² test of draws against the posterior of `priors`, sampled with a β that is larger by `wrong`."""
    topics = np.zeros(documents.tokens, dtype=np.int32)
    sweep = light(documents, Priors(priors.alpha, priors.beta + wrong, priors.vocabulary), topics, 2)
    powers = TOPICS ** np.arange(documents.tokens)[::-1]
    seen = np.zeros(TOPICS**documents.tokens)
    for k in range(20 + samples * every):
        sweep(k)
        if k >= 20 and k % every == 0:
            seen[int(topics @ powers)] += 1
    expected = posterior(documents, priors) * seen.sum()
    order = np.argsort(expected)  # states that are too rare for the test are taken together
    groups = np.minimum((expected[order].cumsum() / 8).astype(int), 10**9)
    sums = [np.bincount(np.unique(groups, return_inverse=True)[1], weights=each[order]) for each in (seen, expected)]
    return float(chi2.sf(((sums[0] - sums[1]) ** 2 / sums[1]).sum(), len(sums[0]) - 1))


@pytest.mark.long
def test_draws_are_of_the_exact_posterior_and_the_test_notices_another_prior() -> None:
    assert p_value(TOY, PRIORS, samples=2500, every=10) > 0.01
    assert p_value(TOY, PRIORS, samples=2500, every=10, wrong=0.3) < 1e-4
