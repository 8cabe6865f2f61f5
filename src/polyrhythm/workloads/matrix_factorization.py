"""Ratings of items by users as products of short vectors: sparse work on the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes, require_not_negative, require_positive

TEST_SHARE = 0.1
BEGINNING = 0.3
"""The initial standard deviation of the factors."""


@dataclass(frozen=True, slots=True)
class MatrixFactorization:
    """Factors of `rank` for each user and each item, by stochastic gradients on batches of ratings; `batch_size` is each worker's own.

    Ratings are products of such factors with noise of a tenth of their deviation. Items are rated the more often the lower their number is.
    """

    users: int = 200
    items: int = 100
    ratings: int = 8000
    rank: int = 4
    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 0.05
    penalty: float = 0.01

    name: ClassVar[str] = "matrix-factorization"
    description: ClassVar[str] = "ratings as products of factors of 200 users and 100 items: each batch reads few rows of a table"
    metric: ClassVar[Metric] = Metric("rmse", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            users=self.users,
            items=self.items,
            ratings=self.ratings,
            rank=self.rank,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )
        require_not_negative(self.name, penalty=self.penalty)

    @property
    def sizes(self) -> Sizes:
        """A tenth of the ratings is held out."""
        test = int(self.ratings * TEST_SHARE)
        return Sizes(self.ratings - test, test, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = generated(self, worker.seed)
        draw = rng.generator(worker.seed, "matrix-factorization", "beginning")
        beginning = BEGINNING * torch.randn(self.users + self.items, self.rank, generator=draw)
        factors = worker.table("factors", rows=self.users + self.items, columns=self.rank, initial=beginning)
        worker.evaluate(lambda factors: {"rmse": error(factors, test), "training_rmse": error(factors, training)})

        for _ in range(self.epochs):
            for rows, ratings in worker.batches(training, batch_size=self.batch_size):
                users, items = factors.get(rows.flatten()).view(len(rows), 2, -1).unbind(dim=1)
                wrong = (ratings - (users * items).sum(dim=1)).unsqueeze(1)
                change = torch.stack([wrong * items - self.penalty * users, wrong * users - self.penalty * items], dim=1)
                factors.inc(rows.flatten(), self.learning_rate * change.flatten(0, 1))
                factors.clock()


def generated(settings: MatrixFactorization, seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Pairs of rows (n, 2), of a user and an item, and their ratings (n,), of which none are in both sets."""
    draw = rng.stream(seed, "matrix-factorization", "data")
    users, items = (draw.standard_normal((count, settings.rank)) for count in (settings.users, settings.items))
    who = draw.integers(0, settings.users, settings.ratings)
    what = (settings.items * draw.random(settings.ratings) ** 2).astype(int)
    exact = (users[who] * items[what]).sum(axis=1) / settings.rank**0.5
    rated = torch.from_numpy(exact + 0.1 * draw.standard_normal(settings.ratings)).float()
    rows = torch.stack([torch.from_numpy(who), torch.from_numpy(what) + settings.users], dim=1)
    test = settings.sizes.test
    return TensorDataset(rows[test:], rated[test:]), TensorDataset(rows[:test], rated[:test])


def error(factors: Tensor, dataset: TensorDataset) -> float:
    """The root of the mean squared error of these ratings."""
    rows, ratings = dataset.tensors
    users, items = factors[rows].unbind(dim=1)
    return (ratings - (users * items).sum(dim=1)).square().mean().sqrt().item()
