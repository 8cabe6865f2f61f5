"""LDA in whole runs: the table counts every token once at every moment, whoever comes and goes, and the topics predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.tables.table_shard import TableShard
from polyrhythm.errors import DataError, WorkloadError
from polyrhythm.hardware.faults import Crash, Fault, Join, Leave
from polyrhythm.workloads.lda import Lda, beginning, divided
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.held_out import log_likelihood, topic_words
from polyrhythm.workloads.topics.holding import Holding
from polyrhythm.workloads.topics.owners import owners
from polyrhythm.workloads.topics.planted import PlantedTopics
from polyrhythm.workloads.topics.text import bag_of_words, bundled, plain_text, read

JOB = Lda(topics=6, sweeps=6, documents=200, length=40, vocabulary=150, blocks=4)
TOKENS = divided(JOB.all_documents(1))[0].tokens
OF_WORDS = torch.from_numpy(np.bincount(divided(JOB.all_documents(1))[0].words, minlength=JOB.vocabulary))
STEPS = pr.hardware.Profile("measured", (1e-3,))
SYSTEMS = {
    "bsp": pr.Strategy(consistency=pr.consistency.BulkSynchronous(), topology=pr.topology.Server(2)),
    "ssp": pr.Strategy(consistency=pr.consistency.Bounded(2), topology=pr.topology.Server(3)),
    "asp": pr.Strategy(consistency=pr.consistency.Asynchronous(), topology=pr.topology.Server(1)),
}
CHANGES: dict[str, tuple[Fault, ...]] = {
    "one is lost": (Crash("worker/2", at=0.0112),),
    "two are lost, the first among them": (Crash("worker/0", at=0.0071), Crash("worker/1", at=0.0132)),
    "one leaves, others join": (Leave("worker/1", at=0.006), Join(at=0.012), Join(at=0.015)),
    "one is lost at its first step": (Crash("worker/3", at=0.0003),),
}


def found_right(counts: Any) -> None:
    """The words are all there, none of their topics is negative, and the summaries are of what has changed."""
    training = divided(JOB.all_documents(1))[0]
    words, summaries = counts[: JOB.vocabulary], counts[JOB.vocabulary :]
    assert torch.equal(words.sum(dim=1), OF_WORDS)
    assert int(words.min()) >= 0
    assert int(summaries.sum()) == 0
    first = words.sum(dim=0) - summaries.sum(dim=0)  # the topics of tokens at first, which are equally frequent
    assert bool(((first - training.tokens / JOB.topics).abs() < 6 * (training.tokens / JOB.topics) ** 0.5).all())


@pytest.mark.parametrize("workers", [1, 4, pytest.param(16, marks=pytest.mark.long)])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_token_is_counted_once_and_topics_predict(system: str, workers: int) -> None:
    run = pr.run(JOB, workers=workers, strategy=SYSTEMS[system], on=pr.Simulator(network="lan", devices=STEPS), seed=1)
    found_right(run.weights["counts"])
    assert run.final["tokens"] == TOKENS
    assert run.summary.samples == JOB.sweeps * TOKENS
    training, test = divided(JOB.all_documents(1))
    none = topic_words(np.bincount(training.words, minlength=JOB.vocabulary)[:, None], JOB.beta)
    assert run.final["perplexity"] < 0.93 * np.exp(-log_likelihood(none, test, JOB.alpha))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_token_is_counted_once_at_every_moment_while_workers_are_lost_and_join(
    system: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, looks, of_servers = TableShard._advance, [0], {}

    async def looking(shard: TableShard) -> None:
        await advance(shard)
        rows = shard.shape.kind.flat(shard.store.read(shard.every), JOB.topics).view(-1, JOB.topics).sum(dim=1)
        assert torch.equal(rows, of_servers.setdefault(shard.rank, rows)), "a word has lost tokens, or got some"
        looks[0] += 1

    monkeypatch.setattr(TableShard, "_advance", looking)
    on = pr.Simulator(network="lan", devices=STEPS, faults=CHANGES[change])
    run = pr.run(JOB, workers=pr.Crew(1, 4), strategy=SYSTEMS[system], on=on, seed=1)
    found_right(run.weights["counts"])
    assert sum(int(rows.sum()) for rows in of_servers.values()) == TOKENS
    assert looks[0] > 50
    assert run.summary.samples > 0.7 * JOB.sweeps * TOKENS


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_token_is_counted_once_on_real_processes_of_which_some_are_killed_and_join(system: str) -> None:
    on = pr.Processes(faults=(Crash("worker/1", step=5), Join(at=2.0)), timeout=60.0)
    run = pr.run(JOB, workers=pr.Crew(1, 3), strategy=SYSTEMS[system], on=on, seed=1)
    found_right(run.weights["counts"])
    assert run.final["tokens"] == TOKENS
    assert run.summary.lost == ["worker/1"]


@pytest.mark.long
def test_without_slack_processes_and_virtual_time_come_to_the_same_bits() -> None:
    found = [pr.run(JOB, workers=3, strategy=SYSTEMS["bsp"], on=on, seed=1).weights["counts"] for on in (pr.Processes(), pr.Simulator())]
    assert torch.equal(*found)
    for system in ("ssp", "asp"):
        found_right(pr.run(JOB, workers=4, strategy=SYSTEMS[system], on=pr.Processes(), seed=1).weights["counts"])


def test_a_run_that_is_resumed_by_others_counts_every_token_once(tmp_path: Path) -> None:
    kept, again = (pr.Checkpoints(directory=tmp_path, every=4, resume=resume) for resume in (False, True))
    on = pr.Simulator(network="lan", devices=STEPS, faults=(Crash("worker/1", at=0.014),))
    with pytest.raises(pr.errors.WorkerFailed):
        pr.run(JOB, workers=3, strategy=SYSTEMS["ssp"], on=on, seed=1, checkpoints=kept)
    run = pr.run(JOB, workers=2, strategy=SYSTEMS["ssp"], on=pr.Simulator(), seed=1, checkpoints=again)
    found_right(run.weights["counts"])


class FakeTable:
    """A table of which `free` is what nobody holds."""

    def __init__(self, free: torch.Tensor) -> None:
        self.free, self.columns = free, free.shape[1]
        self.released: list[tuple[torch.Tensor, torch.Tensor]] = []

    def adopt(self, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        taken = torch.minimum(self.free[rows], values)
        self.free[rows] -= taken
        return taken

    def release(self, rows: torch.Tensor, values: torch.Tensor) -> None:
        self.free[rows] += values


def test_topics_that_were_taken_over_are_those_that_the_table_counts_for_the_words() -> None:
    documents = PlantedTopics(30, 20, 25, 3).drawn(2)
    first = (np.arange(documents.tokens) % 5).astype(np.int32)
    table: Any = FakeTable(beginning(documents, first, 25, 5))
    everything = table.free.clone()
    one, other = Holding(documents, first, 3), Holding(documents, first, 3)
    for crew in (("a", "b"), ("a", "b", "c"), ("a", "b")):
        for _ in range(2):  # what one gives up in the first round, the other takes over in the second
            for name, holding in (("a", one), ("b", other)):
                holding.join(name, crew)
                for block in range(3):
                    rows, batch = holding.settled(block, table)
                    assert np.array_equal(rows.numpy()[batch.rows], documents.words[batch.places])
        held = sum(beginning_of(documents, each.topics, 5) for each in (one, other))
        assert torch.equal(held + table.free, everything)
        assert not ((one.topics >= 0) & (other.topics >= 0)).any()
        assert bool(table.free.any()) == (len(crew) == 3)
    again = Holding(documents, first, 3)
    again.load_state_dict(one.state_dict())
    again.join("a", ("a", "b"))
    assert np.array_equal(again.topics, one.topics)
    again.join("c", ("a", "b", "c"))
    assert (again.topics == -1).all()


def beginning_of(documents: Documents, topics: np.ndarray, width: int) -> torch.Tensor:
    held = topics >= 0
    counts = np.bincount(documents.words[held] * np.int64(width) + topics[held], minlength=documents.vocabulary * width)
    return torch.from_numpy(counts).view(-1, width)


def test_documents_are_shared_evenly_and_few_move() -> None:
    lengths = np.random.default_rng(1).integers(5, 200, 800)
    names = tuple(f"worker/{k}" for k in range(8))
    before = owners(lengths, names)
    loads = np.bincount(before, weights=lengths)
    assert loads.max() <= 1.06 * lengths.sum() / 8
    others = owners(lengths, names[:3] + names[4:])
    stayed = before != 3
    same = np.array(names)[before] == np.array(names[:3] + names[4:])[others]
    assert same[stayed].mean() > 0.85
    assert owners(np.array([900, 1, 1]), names[:2]).tolist().count(0) in (1, 2)


def test_texts_are_read_as_documents(tmp_path: Path) -> None:
    documents = bundled(300)
    assert documents.vocabulary == 300
    assert documents.names[:2] == ("the", "is") or len(set(documents.names)) == 300
    assert np.bincount(documents.words).argmax() == 0
    (tmp_path / "text8").write_text("the cat sat on the mat " * 100)
    text = read(tmp_path / "text8", 50)
    assert len(text) == 3
    assert text.names[0] == "the"
    (tmp_path / "two.txt").write_text("One cat, one dog.\n\nTwo cats and one dog.")
    assert [plain_text(tmp_path / "two.txt", 9).names[int(word)] for word in plain_text(tmp_path / "two.txt", 9).words] == [
        *("one", "one", "dog"),
        *("one", "dog"),
    ]
    (tmp_path / "docword.toy.txt").write_text("3\n4\n4\n1 2 2\n3 1 1\n1 4 1\n3 4 3\n")
    (tmp_path / "vocab.toy.txt").write_text("ant\nbee\ncat\ndog\n")
    bag = read(tmp_path / "docword.toy.txt", 9)
    assert bag.words.tolist() == [1, 1, 3, 0, 3, 3, 3]
    assert bag.lengths.tolist() == [3, 0, 4]
    assert bag.names == ("ant", "bee", "cat", "dog")
    (tmp_path / "docword.bad.txt").write_text("3\n4\n4\n1 5 2\n")
    for wrong in (lambda: bag_of_words(tmp_path / "docword.bad.txt"), lambda: plain_text(tmp_path / "none", 9)):
        with pytest.raises(DataError):
            wrong()


def test_topics_of_the_bundled_text_are_drawn() -> None:
    job = Lda(source="python", topics=5, sweeps=1, vocabulary=200, blocks=2)
    assert job.sizes.training > 20_000
    run = pr.run(job, workers=2, strategy=SYSTEMS["ssp"], on=pr.Simulator(), seed=0)
    assert run.final["tokens"] == job.sizes.training


def test_the_likelihood_of_documents_with_one_topic_is_that_of_its_words() -> None:
    documents = PlantedTopics(20, 30, 12, 2).drawn(0)
    words = np.random.default_rng(0).dirichlet(np.ones(12))
    asked = documents.halves()[1]
    assert log_likelihood(words[:, None], documents, 0.1) == pytest.approx(np.log(words[asked.words]).mean())


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"topics": 0}, {"blocks": 300, "vocabulary": 200}, {"alpha": 0.0}, {"beta": float("nan")}):
        with pytest.raises(WorkloadError, match="lda was given"):
            Lda(**wrong)  # type: ignore[arg-type]
