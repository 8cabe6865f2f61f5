"""Vectors of the senses of words, by a mixture of skip-grams on two tables of which a block of text reads its own words' rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.tables.table import Table
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.lda import PYTHON
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.sense_mixture import Occurrences, SenseMixture, SenseVectors
from polyrhythm.workloads.topics.sense_purity import minor_neighbours, purity
from polyrhythm.workloads.topics.text import bundled, plain_text
from polyrhythm.workloads.topics.two_senses import PlantedSenses, SharedWords, merged
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

_TEST_SHARE = 0.1
_PART = 32
"""Occurrences of a step of EM within a block."""
_COMMON = 0.75
"""The power of frequencies with which noise words are drawn (Mikolov et al., 2013)."""


@dataclass(frozen=True, slots=True)
class WordSenses:
    """Skip-grams in which each word has `senses` vectors and each occurrence is of one of them (Tian et al., COLING 2014), by EM.

    Two tables have the vectors, of senses and of contexts, and how often each sense occurred. A block is `batch_size` documents: a worker
    reads the rows of its words and of `noise` noise words, which its occurrences share, learns on its copies and adds the
    changes (as DMTK does). `window` words on each side are the context, each as heavy as `negatives` noise words.

    Without a `source` documents are generated, of `topics`; `planted` of the words belong to two topics each. "python" are the reference
    topics that come with Python, and else it is a file of text, such as text8: in these `planted` pairs of words are made one word each.
    `alpha` is how often each sense counts as seen beforehand: with few a sense may take all of a word before vectors tell them apart.
    The metric is the purity of those words' senses in documents that were held out. `senses=1` is a skip-gram as others are.
    """

    senses: int = 2
    dimensions: int = 32
    epochs: int = 8
    batch_size: int = 4
    window: int = 5
    negatives: float = 2.0
    noise: int = 32
    learning_rate: float = 0.03
    spread: float = 0.3
    alpha: float = 200.0
    documents: int = 600
    length: int = 20
    vocabulary: int = 220
    topics: int = 8
    planted: int = 12
    source: str = ""

    name: ClassVar[str] = "word-senses"
    description: ClassVar[str] = "vectors of the senses of words by mixtures of skip-grams: a block of text reads its own words' rows"
    metric: ClassVar[Metric] = Metric("purity", higher_is_better=True)

    def __post_init__(self) -> None:
        positive = ("senses", "dimensions", "epochs", "batch_size", "window", "negatives", "noise", "learning_rate", "spread", "alpha")
        sizes = ("documents", "length", "vocabulary", "topics", "planted")
        require_positive(self.name, **{name: getattr(self, name) for name in positive + sizes})
        if not self.source and self.topics < 2:
            raise WorkloadError(f"{self.name} was given topics={self.topics}: a word of two senses needs two topics.")
        if not self.source and self.vocabulary < self.planted + 2 * (self.topics + 1):
            raise WorkloadError(
                f"{self.name} was given vocabulary={self.vocabulary} for {self.planted} planted words and {self.topics} topics: each "
                f"topic, and the background, needs two words of its own, so that {self.planted + 2 * (self.topics + 1)} are the least."
            )

    @property
    def sizes(self) -> Sizes:
        """The samples are documents; of those that are not generated the numbers are known when they are read."""
        training, test = self.text(0).divided(_TEST_SHARE)
        origin = "bundled" if self.source else "generated from a seed"
        return Sizes(len(training.documents), len(test.documents), self.batch_size, origin)

    def text(self, seed: int) -> PlantedSenses:
        """The documents, of which a tenth are held out."""
        if not self.source:
            return SharedWords(self.documents, self.length, self.vocabulary, self.topics, self.planted).drawn(seed)
        read = bundled(self.vocabulary) if self.source == PYTHON else plain_text(Path(self.source), self.vocabulary)
        return merged(read, self.planted)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = self.text(worker.seed).divided(_TEST_SHARE)
        blocks = TextBlocks(self, training.documents, worker.seed)
        words, size = training.documents.vocabulary, self.dimensions
        beginning = torch.cat(
            [
                self.spread * torch.randn(words * self.senses, size, generator=rng.generator(worker.seed, self.name, "senses")),
                self.spread * torch.randn(words, size, generator=rng.generator(worker.seed, self.name, "contexts")),
            ]
        )
        vectors = worker.table("vectors", rows=len(beginning), columns=size, initial=beginning)
        counts = worker.table("counts", rows=words, columns=self.senses)
        worker.evaluate(measured(self, test, blocks))

        for epoch in worker.epochs(self.epochs):
            rate = self.learning_rate * (1 - epoch / self.epochs)
            for (which,) in worker.batches(TensorDataset(torch.arange(len(training.documents))), batch_size=self.batch_size):
                blocks.learn(which, (vectors, counts), rate, epoch)
                vectors.clock()
                counts.clock()


class TextBlocks:
    """Blocks of documents, and the rows of the tables that each needs."""

    def __init__(self, settings: WordSenses, documents: Documents, seed: int) -> None:
        self.settings, self.documents, self.seed = settings, documents, seed
        self.mixture = SenseMixture(settings.negatives, settings.alpha)
        common = np.bincount(documents.words, minlength=documents.vocabulary) ** _COMMON
        self._until = (common / common.sum()).cumsum()

    def noise(self, *path: str | int) -> Tensor:
        """Noise words (noise,), drawn in proportion to their frequency to the power of 0.75, by the stream `path`."""
        drawn = rng.stream(self.seed, WordSenses.name, "noise", *path).random(self.settings.noise)
        return torch.from_numpy(self._until.searchsorted(drawn).clip(max=self.documents.vocabulary - 1))

    def learn(self, which: Tensor, tables: tuple[Table, Table], rate: float, epoch: int) -> None:
        """Learn on these documents with the rows of their words, and add to both tables what has changed."""
        noise = self.noise(epoch, int(which[0]))
        seen = Occurrences.of(self.documents.chosen(which.numpy()), self.settings.window)
        words, contexts = self.words(seen, noise)
        rows = self.rows(words, contexts)
        before, counted = tables[0].get(rows), tables[1].get(words)
        after, counts = before.clone(), counted.clone()
        number = torch.empty(self.documents.vocabulary, dtype=torch.int64)
        number[contexts] = torch.arange(len(contexts))
        part, own = SenseVectors.of(after, counts), seen.numbered(number)
        order = rng.generator(self.seed, WordSenses.name, "order", epoch, int(which[0]))
        for places in torch.randperm(len(own), generator=order).split(_PART):  # type: ignore[no-untyped-call]
            self.mixture.learn(part, own[places], number[noise], rate)
        tables[0].inc(rows, after - before)
        tables[1].inc(words, counts - counted)

    def words(self, seen: Occurrences, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The different words of a block (n,), and those that are its contexts: the same, and after them the noise words."""
        words: Tensor = seen.words.unique()  # type: ignore[no-untyped-call]
        others: Tensor = noise.unique()  # type: ignore[no-untyped-call]
        return words, torch.cat([words, others[~torch.isin(others, words)]])

    def rows(self, words: Tensor, contexts: Tensor) -> Tensor:
        """The rows of the senses of `words`, then those of `contexts`, in the table of vectors."""
        count = self.settings.senses
        senses = (words.unsqueeze(1) * count + torch.arange(count)).flatten()
        return torch.cat([senses, self.documents.vocabulary * count + contexts])


def measured(settings: WordSenses, test: PlantedSenses, blocks: TextBlocks) -> Callable[[Tensor, Tensor], dict[str, float]]:
    """A function that measures the tables: the purity, and where topics are known, how mixed the neighbours of planted words are."""
    seen = Occurrences.of(test.documents, settings.window, np.flatnonzero(test.senses >= 0))
    planted, noise = torch.from_numpy(test.senses[test.senses >= 0]).long(), blocks.noise("held-out")

    def evaluate(rows: Tensor, counts: Tensor) -> dict[str, float]:
        vectors = SenseVectors.of(rows, counts)
        best = blocks.mixture.posteriors(vectors, seen, noise).argmax(dim=1)
        found = {"purity": purity(seen.words, best, planted)}
        return found | ({"mixed": minor_neighbours(vectors, test)} if len(test.pairs) else {})

    return evaluate
