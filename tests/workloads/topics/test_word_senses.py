"""Senses of words in whole runs: planted senses are found apart, by any number of workers, and a block reads its own words' rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polyrhythm as pr
from polyrhythm.errors import DataError, WorkloadError
from polyrhythm.workloads import WordSenses
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.sense_mixture import Occurrences, SenseMixture, SenseVectors
from polyrhythm.workloads.topics.sense_purity import purity
from polyrhythm.workloads.topics.text import counted
from polyrhythm.workloads.topics.two_senses import merged
from polyrhythm.workloads.word_senses import TextBlocks

SMALL = WordSenses(documents=200, vocabulary=72, topics=3, planted=3, epochs=5, alpha=100.0)
WHOLE = WordSenses()
STEPS = pr.Simulator(network="lan", devices=pr.hardware.Profile("measured", (1e-3,)))
SYSTEMS = {
    "bsp": pr.Strategy(consistency=pr.consistency.BulkSynchronous(), topology=pr.topology.Server(2)),
    "ssp": pr.Strategy(consistency=pr.consistency.Bounded(1), topology=pr.topology.Server(3)),
    "asp": pr.Strategy(consistency=pr.consistency.Asynchronous(), topology=pr.topology.Server(1)),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_planted_senses_are_found_apart(system: str) -> None:
    run = pr.run(SMALL, workers=2, strategy=SYSTEMS[system], on=STEPS, seed=1)
    assert run.final["purity"] >= 0.9
    assert run.final["mixed"] <= 0.1
    tokens = SMALL.sizes.training * SMALL.length * SMALL.epochs
    assert float(run.weights["counts"].sum()) == pytest.approx(tokens, rel=1e-3)


def test_a_single_sense_mixes_both_contexts() -> None:
    run = pr.run(replace(SMALL, senses=1), workers=2, strategy="ssp", on=STEPS, seed=1)
    assert run.final["purity"] < 0.75
    assert run.final["mixed"] > 0.2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("system", SYSTEMS)
def test_sixteen_virtual_workers_find_planted_senses(system: str, seed: int) -> None:
    assert pr.run(WHOLE, workers=16, strategy=SYSTEMS[system], on=STEPS, seed=seed).final["purity"] >= 0.9


def test_real_processes_count_every_occurrence_once() -> None:
    job = replace(SMALL, documents=60, epochs=2)
    run = pr.run(job, workers=2, strategy=SYSTEMS["ssp"], on=pr.Processes(timeout=60.0), seed=1)
    assert float(run.weights["counts"].sum()) == pytest.approx(job.sizes.training * job.length * job.epochs, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_any_number_of_real_processes_find_planted_senses(workers: int) -> None:
    for system in SYSTEMS.values():
        assert pr.run(SMALL, workers=workers, strategy=system, on=pr.Processes(timeout=120.0), seed=1).final["purity"] >= 0.9


@pytest.mark.long
def test_without_slack_processes_and_virtual_time_come_to_the_same_bits() -> None:
    found = [pr.run(SMALL, workers=3, strategy=SYSTEMS["bsp"], on=on, seed=1).weights for on in (pr.Processes(timeout=120.0), STEPS)]
    assert all(torch.equal(found[0][name], found[1][name]) for name in ("vectors", "counts"))


class CountingTable:
    """A table that keeps which rows were asked for."""

    def __init__(self, content: torch.Tensor) -> None:
        self.content, self.asked, self.added = content, list[torch.Tensor](), list[torch.Tensor]()

    def get(self, rows: torch.Tensor) -> torch.Tensor:
        self.asked.append(rows)
        return self.content[rows]

    def inc(self, rows: torch.Tensor, values: torch.Tensor) -> None:
        self.added.append(rows)
        self.content.index_add_(0, rows, values)


@pytest.mark.parametrize("senses", [1, 2, 3])
def test_a_block_reads_and_writes_the_rows_of_its_own_words_once_each(senses: int) -> None:
    job = replace(SMALL, senses=senses)
    text = job.text(0).documents
    blocks = TextBlocks(job, text, 0)
    vectors: Any = CountingTable(torch.randn(text.vocabulary * (senses + 1), job.dimensions))
    counts: Any = CountingTable(torch.zeros(text.vocabulary, senses))
    before = vectors.content.clone()
    which = torch.tensor([3, 17])
    blocks.learn(which, (vectors, counts), 0.05, 0)
    own = set(text.chosen(which.numpy()).words.tolist())
    noise = set(blocks.noise(0, 3).tolist())
    expected = {word * senses + k for word in own for k in range(senses)} | {text.vocabulary * senses + word for word in own | noise}
    assert sorted(vectors.asked[0].tolist()) == sorted(expected) == sorted(vectors.added[0].tolist())
    assert sorted(counts.asked[0].tolist()) == sorted(own)
    others = [row for row in range(len(before)) if row not in expected]
    assert torch.equal(vectors.content[others], before[others])
    assert float(counts.content.sum()) == pytest.approx(2 * job.length, rel=1e-4)


def test_learning_is_a_gradient_step_of_the_likelihood_of_words_around() -> None:
    draw = torch.Generator().manual_seed(1)
    documents = Documents.of([[0, 1, 2, 3], [3, 1, 1]], 4)
    seen, noise = Occurrences.of(documents, 2), torch.tensor([0, 2, 2])
    vectors = SenseVectors(torch.randn(4, 2, 5, generator=draw), torch.randn(4, 5, generator=draw), torch.ones(4, 2))
    leaves = [each.clone().requires_grad_() for each in (vectors.senses, vectors.contexts)]
    mixture, own = SenseMixture(2.0, 0.5), leaves[0][seen.words]
    posterior = mixture.posteriors(vectors, seen, noise)
    around = torch.nn.functional.logsigmoid(torch.einsum("nsd,nad->nsa", own, leaves[1][seen.around]))
    others = torch.nn.functional.logsigmoid(-torch.einsum("nsd,md->nsm", own, leaves[1][noise])).mean(dim=2)
    near = seen.there.unsqueeze(1)
    likely = (around * near).sum(dim=2) + 2.0 * near.sum(dim=2) * others
    prior = torch.log(torch.ones(2) + 0.5)
    assert torch.allclose(posterior, torch.softmax(likely + prior, dim=1), atol=1e-6)
    (posterior.detach() * likely).sum().backward()
    before = [each.clone() for each in (vectors.senses, vectors.contexts)]
    mixture.learn(vectors, seen, noise, 0.1)
    for now, was, leaf in zip((vectors.senses, vectors.contexts), before, leaves, strict=True):
        assert leaf.grad is not None
        assert torch.allclose(now - was, 0.1 * leaf.grad, atol=1e-5)


def test_the_words_around_are_of_the_same_document() -> None:
    seen = Occurrences.of(Documents.of([[5, 6, 7], [8, 9]], 10), 2, np.array([1, 3]))
    assert seen.words.tolist() == [6, 8]
    assert [row[near].tolist() for row, near in zip(seen.around, seen.there, strict=True)] == [[5, 7], [9]]


def test_purity_is_one_of_right_senses_and_a_half_of_one_sense() -> None:
    words, planted = torch.tensor([3, 3, 3, 3, 4, 4]), torch.tensor([0, 0, 1, 1, 0, 1])
    assert purity(words, planted, planted) == purity(words, 1 - planted, planted) == 1.0
    assert purity(words, torch.zeros(6, dtype=torch.int64), planted) == 0.5
    assert purity(words, torch.tensor([0, 1, 0, 1, 1, 1]), planted) == 0.5


def test_generated_words_of_two_senses_stand_in_documents_of_their_topics() -> None:
    text = SMALL.text(3)
    words = text.documents.words.reshape(SMALL.documents, SMALL.length)
    senses = text.senses.reshape(words.shape)
    assert ((senses >= 0) == (words >= text.first)).all()
    for document, sense in zip(words, senses, strict=True):
        topics = {int(text.contexts[word]) for word in document if word < text.first and text.contexts[word] >= 0}
        planted = {int(text.pairs[word - text.first, k]) for word, k in zip(document, sense, strict=True) if k >= 0}
        assert len(topics | planted) <= 1
    assert 0.3 < (senses[senses >= 0] == 1).mean() < 0.7


def test_pairs_of_words_of_a_text_become_one_word_and_senses_tell_them_apart() -> None:
    draw = np.random.default_rng(0)
    text = counted((draw.choice([chr(97 + k // 10) + chr(97 + k % 10) for k in range(40)], 30).tolist() for _ in range(50)), 40)
    planted = merged(text, 4)
    assert planted.documents.vocabulary == 36
    assert planted.planted == 4
    for was, now, sense in zip(text.words, planted.documents.words, planted.senses, strict=True):
        name = planted.documents.names[int(now)]
        assert (name.split("/")[int(sense)] if sense >= 0 else name) == text.names[int(was)]
    with pytest.raises(DataError, match="pairs"):
        merged(text, 6)


def test_senses_of_the_bundled_text_and_of_a_file_are_learned(tmp_path: Path) -> None:
    (tmp_path / "text8").write_text(" ".join(chr(97 + k % 23) + chr(97 + k % 7) for k in range(3000)))
    for job in (
        WordSenses(source="python", epochs=1, batch_size=400, planted=5),
        WordSenses(source=str(tmp_path / "text8"), epochs=1, planted=5),
    ):
        assert 0.5 <= pr.run(job, workers=2, strategy="ssp", on=STEPS, seed=0).final["purity"] <= 1.0


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"senses": 0}, {"topics": 1}, {"vocabulary": 20}, {"alpha": 0.0}, {"learning_rate": float("nan")}):
        with pytest.raises(WorkloadError, match="word-senses was given"):
            WordSenses(**wrong)  # type: ignore[arg-type]
