"""Topics of documents by LightLDA, on a table of counts of which each worker has a slice at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.catalogue import DenseRows, Leased
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.tables.table import Table
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Priors, TokenBatch
from polyrhythm.workloads.topics.held_out import log_likelihood, topic_words
from polyrhythm.workloads.topics.holding import Holding
from polyrhythm.workloads.topics.planted import PlantedTopics
from polyrhythm.workloads.topics.portable import uniform
from polyrhythm.workloads.topics.slices import ModelSlice
from polyrhythm.workloads.topics.text import bundled, read
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

PYTHON = "python"
"""The `source` of the reference topics that come with Python."""
SUMMARIES = 16
"""The rows of summaries: each server keeps one for its words, up to so many servers."""
_TEST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Lda:
    """Latent Dirichlet allocation with `topics` topics, drawn by LightLDA (Yuan et al., WWW 2015) for `sweeps` sweeps of all tokens.

    A table has the number of tokens of each word in each topic. Words are in `blocks`, and in a step a worker draws the tokens of one
    block in its documents; the workers go round through the blocks, each with another one. So a worker has a slice of the model at a time
    (as schedules of STRADS do; Xing et al., 2015), and `cache` keeps no more. Topics of tokens stay at the worker. For each token `cycles`
    times a topic is proposed from an alias table of the word's, and one from the document; the time does not depend on their number.
    Counts of a slice are renewed after each of `parts` parts of its tokens, all others after a step.

    Without a `source` documents are generated; "python" are the reference topics that come with Python, and else it is a file: text, or
    docword.NAME.txt of the UCI repository. `vocabulary` then bounds the words of a text. `alpha` and `beta` are the Dirichlet parameters of
    topics in documents and words in topics.
    """

    topics: int = 20
    sweeps: int = 20
    documents: int = 400
    length: int = 60
    vocabulary: int = 800
    blocks: int = 16
    parts: int = 4
    cycles: int = 4
    alpha: float = 0.1
    beta: float = 0.01
    source: str = ""

    name: ClassVar[str] = "lda"
    description: ClassVar[str] = "topics of documents by LightLDA: counts on a table, of which each worker has a slice at a time"
    metric: ClassVar[Metric] = Metric("perplexity", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            **{name: getattr(self, name) for name in ("topics", "sweeps", "documents", "length", "vocabulary")},
            **{name: getattr(self, name) for name in ("blocks", "parts", "cycles", "alpha", "beta")},
        )
        if self.blocks > self.vocabulary:
            raise WorkloadError(f"{self.name} was given blocks={self.blocks} of {self.vocabulary} words: a block has one word or more.")

    @property
    def sizes(self) -> Sizes:
        """The samples are tokens; of those that are not generated the numbers are known when they are read."""
        documents = self.all_documents(0)
        training, test = divided(documents)
        return Sizes(
            training.tokens, test.tokens, -(-training.tokens // self.blocks), "generated from a seed" if not self.source else "bundled"
        )

    def all_documents(self, seed: int) -> Documents:
        """The documents, of which a tenth are held out."""
        if not self.source:
            return PlantedTopics(self.documents, self.length, self.vocabulary, self.topics).drawn(seed)
        return bundled(self.vocabulary) if self.source == PYTHON else read(Path(self.source), self.vocabulary)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Draw the topics, as one of the workers."""
        training, test = divided(self.all_documents(worker.seed))
        first = (uniform(rng.derive(worker.seed, "lda", "first"), np.arange(training.tokens)) * self.topics).astype(np.int32)
        holding = Holding(training, first, self.blocks)
        rows = training.vocabulary + SUMMARIES
        initial = beginning(training, first, rows, self.topics) if worker.rank == 0 else None
        slice_rows = -(-training.vocabulary // self.blocks) + SUMMARIES
        table = worker.table(
            "counts", rows=rows, columns=self.topics, row=Leased(DenseRows(torch.int64)), initial=initial, cache=slice_rows
        )
        worker.keep(holding=holding)
        worker.evaluate(measured(self, training.vocabulary, test))
        sampler = TopicSampler(self, training, table, np.bincount(first, minlength=self.topics))

        for step in worker.range(self.sweeps * self.blocks):
            holding.join(worker.crew.members[worker.rank], worker.crew.members)
            block = (step + worker.rank * self.blocks // worker.workers) % self.blocks
            rows_of_block, batch = holding.settled(block, table)
            worker.count(len(batch.places))
            sampler.draw(holding.topics, rows_of_block, batch, rng.derive(worker.seed, "lda", holding.name, step))
            table.clock()


class TopicSampler:
    """Draws the tokens of a block, with the slice of the table that they need; `first` are the totals of topics at first (topics,)."""

    def __init__(self, settings: Lda, documents: Documents, table: Table, first: NDArray[np.int64]) -> None:
        self.settings, self.documents, self.table, self.first = settings, documents, table, first
        self.priors = Priors(settings.alpha, settings.beta, documents.vocabulary)

    def draw(self, topics: NDArray[np.int32], rows: Tensor, batch: TokenBatch, key: int) -> None:
        """Draw the tokens of `batch`, whose words have these rows of the table, in `topics` (tokens,), and add the changes to the table.

        What changes at a server's words goes to the same server's summary: so both come there, or none.
        """
        summaries = self._summaries(torch.arange(min(self.table.servers, SUMMARIES)))
        seen = self.table.get(torch.cat([rows, summaries]))
        before = seen[: len(rows)]
        totals = self.first + seen[len(rows) :].sum(dim=0).numpy()
        part = ModelSlice(before.to(torch.int32).numpy(), totals, self.priors, self.settings.cycles)
        for k, places in enumerate(np.array_split(np.arange(len(batch.places)), self.settings.parts)):
            part.draw(self.documents, topics, TokenBatch(batch.places[places], batch.rows[places]), (key + k) % 2**64)
        change = torch.from_numpy(part.counts).long() - before
        changed = change.any(dim=1)
        self.table.inc(rows[changed], change[changed])
        self.table.inc(self._summaries(rows[changed] % self.table.servers), change[changed])

    def _summaries(self, servers: Tensor) -> Tensor:
        """The row of each server's summary, which it keeps itself."""
        first = self.documents.vocabulary
        return first + (servers - first) % self.table.servers % SUMMARIES


def divided(documents: Documents) -> tuple[Documents, Documents]:
    """The documents to train on, and a tenth that are held out: every tenth, since neighbours in a text are alike."""
    every = np.arange(len(documents))
    held_out = every % round(1 / _TEST_SHARE) == 0
    return documents.chosen(every[~held_out]), documents.chosen(every[held_out])


def beginning(documents: Documents, topics: NDArray[np.int32], rows: int, width: int) -> Tensor:
    """The table at first (rows, topics); summaries are of what has changed since."""
    counts = np.bincount(documents.words * np.int64(width) + topics, minlength=rows * width)
    return torch.from_numpy(counts).view(rows, width)


def measured(settings: Lda, vocabulary: int, test: Documents) -> Callable[[Tensor], dict[str, float]]:
    """A function that measures the table: the perplexity of tokens that were held out, and how many tokens it counts."""

    def evaluate(table: Tensor) -> dict[str, float]:
        counts = table[:vocabulary].numpy()
        likelihood = log_likelihood(topic_words(counts, settings.beta), test, settings.alpha)
        return {"perplexity": float(np.exp(-likelihood)), "tokens": float(counts.sum())}

    return evaluate
