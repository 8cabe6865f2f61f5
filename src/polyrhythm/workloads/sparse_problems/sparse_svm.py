"""A linear support vector machine on samples that each have a few of many features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.sparse_problems.sparse_steps import RowGradient, SharedRows, SparseSteps
from polyrhythm.workloads.workload import Metric, Sizes, require_not_negative, require_positive

TEST_SAMPLES = 1000
_NOISE = 0.3


@dataclass(frozen=True, slots=True)
class SparseSvm:
    """The hinge loss of samples with `present` of `features` each, and `penalty` λ on weights, of which each sample bears its part.

    The part of a sample is λ Σ w²/d over its features, with d the number of samples that have the feature (Niu et al., 2011, equation 3).
    """

    samples: int = 4000
    features: int = 2000
    present: int = 20
    penalty: float = 1.0
    epochs: int = 10
    batch_size: int = 4
    learning_rate: float = 0.3
    decay: float = 0.9

    name: ClassVar[str] = "sparse-svm"
    description: ClassVar[str] = "a support vector machine on 20 of 2,000 features a sample: steps that write 20 rows, for shared memory"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            samples=self.samples,
            features=self.features,
            present=self.present,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
        )
        require_not_negative(self.name, penalty=self.penalty)
        if self.present > self.features:
            raise WorkloadError(f"{self.name} was given present={self.present} of {self.features} features: give as many or fewer.")

    @property
    def sizes(self) -> Sizes:
        """Both are drawn from the run's seed."""
        return Sizes(self.samples, TEST_SAMPLES, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = generated(self, worker.seed)
        counts = training.tensors[0].flatten().bincount(minlength=self.features).clamp(min=1).unsqueeze(1)
        shares = (2 * self.penalty / counts).to(worker.device)

        def gradient(rows: Tensor, batch: tuple[Tensor, ...], rate: float) -> RowGradient:
            which, values, labels = batch
            wrong = (labels * margins(rows, which, values) < 1).to(rows.dtype) * labels
            found = -wrong.unsqueeze(1) * values
            flat = which.flatten()
            return RowGradient(flat, found.reshape(-1, 1) + shares[flat] * rows[flat])

        steps = SparseSteps(self.epochs, self.batch_size, self.learning_rate, self.decay)
        steps.train(worker, SharedRows(torch.zeros(self.features, 1)), training, gradient, lambda rows: measured(rows, test))


def generated(settings: SparseSvm, seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Features of samples (n, present), their values, of unit length, and labels -1 or 1 (n,), to train and to test on."""
    draw = rng.stream(seed, "sparse-svm", "data")
    count = settings.samples + TEST_SAMPLES
    which = torch.from_numpy(draw.random((count, settings.features)).argpartition(settings.present - 1, axis=1)[:, : settings.present])
    values = torch.from_numpy(draw.standard_normal((count, settings.present))).float()
    values = values / values.norm(dim=1, keepdim=True)
    planted = torch.from_numpy(draw.standard_normal((settings.features, 1))).float()
    noise = _NOISE * torch.from_numpy(draw.standard_normal(count)).float()
    labels = (margins(planted, which, values) + noise).sign()
    every = (which, values, labels)
    return TensorDataset(*(each[TEST_SAMPLES:] for each in every)), TensorDataset(*(each[:TEST_SAMPLES] for each in every))


def margins(rows: Tensor, which: Tensor, values: Tensor) -> Tensor:
    """w x of each sample: (n,)."""
    return (rows[which, 0] * values).sum(dim=1)


def measured(rows: Tensor, test: TensorDataset) -> dict[str, float]:
    """The mean hinge loss and the accuracy on samples that are not trained on."""
    which, values, labels = test.tensors
    found = labels * margins(rows, which, values)
    return {"loss": (1 - found).clamp(min=0).mean().item(), "accuracy": (found > 0).float().mean().item()}
