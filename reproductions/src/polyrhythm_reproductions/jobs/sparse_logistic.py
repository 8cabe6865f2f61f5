"""Logistic regression on samples of which each has a few of many features: steps that write few weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.step_locks import NoLock, StepLock

_TEST = 2048


@cache
def samples_of(samples: int, features: int, present: int) -> tuple[TensorDataset, TensorDataset]:
    """Features (n, present) that samples have, and labels (n,), to train on and 2,048 others: the sign of planted weights, with noise."""
    draw = torch.Generator().manual_seed(1)
    planted = torch.randn(features, generator=draw)
    which = torch.randint(0, features, (samples + _TEST, present), generator=draw)
    scores = planted[which].sum(dim=1) / present**0.5 + 0.3 * torch.randn(samples + _TEST, generator=draw)
    labels = (scores > 0).float()
    return TensorDataset(which[:samples], labels[:samples]), TensorDataset(which[samples:], labels[samples:])


@dataclass(frozen=True, slots=True)
class SparseRegression:
    """A weight for each of `features`; a sample has `present` of them. The rate decays by `decay` after each epoch (Hogwild!).

    With `sparse` gradients a step writes the weights of its features alone, otherwise all. Steps are taken under `lock`,
    but for a worker's first.
    """

    learning_rate: float = 0.1
    epochs: int = 4
    batch_size: int = 1
    samples: int = 8192
    features: int = 2000
    present: int = 20
    decay: float = 0.9
    sparse: bool = True
    lock: StepLock = NoLock()  # noqa: RUF009 (a frozen value)

    name: ClassVar[str] = "sparse-logistic"
    description: ClassVar[str] = "logistic regression on samples with a few of many features"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        """None of the samples to test on is trained on."""
        return Sizes(self.samples, _TEST, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = samples_of(self.samples, self.features, self.present)
        weights = nn.EmbeddingBag(self.features, 1, mode="sum", sparse=self.sparse)
        nn.init.zeros_(weights.weight)
        model, optimizer = worker.attach(weights, torch.optim.SGD(weights.parameters(), lr=self.learning_rate))
        worker.evaluate(lambda model: {"loss": _loss(model, *test.tensors).item()})
        lock: StepLock = NoLock()  # at the first step workers compare their models: one that kept others from it would wait for ever
        for epoch in range(self.epochs):
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * self.decay**epoch
            for which, labels in worker.batches(training, batch_size=self.batch_size):
                optimizer.zero_grad()
                with lock.held():
                    _loss(model, which, labels).backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                lock = self.lock


def _loss(model: nn.Module, which: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(model(which)[:, 0], labels)
