"""A matrix of which some entries are known, completed by factors that are rows of shared weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.matrix_factorization import BEGINNING, TEST_SHARE, MatrixFactorization, error, generated
from polyrhythm.workloads.sparse_problems.sparse_steps import RowGradient, SharedRows, SparseSteps
from polyrhythm.workloads.workload import Metric, Sizes, require_not_negative, require_positive


@dataclass(frozen=True, slots=True)
class MatrixCompletion:
    """Factors of `rank` for each row and column, by steps that write two rows for each known entry; entries are those of
    `matrix-factorization`.

    The `penalty` μ/2 on a factor is divided among its entries (Niu et al., 2011, equation 5).
    """

    users: int = 200
    items: int = 100
    ratings: int = 8000
    rank: int = 4
    penalty: float = 1.0
    epochs: int = 10
    batch_size: int = 4
    learning_rate: float = 0.2
    decay: float = 0.9

    name: ClassVar[str] = "matrix-completion"
    description: ClassVar[str] = "known entries of a 200 x 100 matrix as products of factors: steps that write two rows, for shared memory"
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
            decay=self.decay,
        )
        require_not_negative(self.name, penalty=self.penalty)

    @property
    def sizes(self) -> Sizes:
        """A tenth of the entries is held out."""
        test = int(self.ratings * TEST_SHARE)
        return Sizes(self.ratings - test, test, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = generated(MatrixFactorization(self.users, self.items, self.ratings, self.rank), worker.seed)
        number = self.users + self.items
        counts = training.tensors[0].flatten().bincount(minlength=number).clamp(min=1).view(-1, 1, 1)
        shares = (self.penalty / counts).to(worker.device)

        def gradient(rows: Tensor, batch: tuple[Tensor, ...], rate: float) -> RowGradient:
            which, ratings = batch
            own = rows[which]
            wrong = (own.prod(dim=1).sum(dim=1) - ratings).view(-1, 1, 1)
            found = wrong * own.flip(1) + shares[which].squeeze(-1) * own
            return RowGradient(which.flatten(), found.flatten(0, 1))

        draw = rng.generator(worker.seed, self.name, "beginning")
        model = SharedRows(BEGINNING * torch.randn(number, self.rank, generator=draw))
        steps = SparseSteps(self.epochs, self.batch_size, self.learning_rate, self.decay)
        steps.train(worker, model, training, gradient, lambda rows: {"rmse": error(rows, test), "training_rmse": error(rows, training)})
