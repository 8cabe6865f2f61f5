"""Logistic regression with a penalty on absolute values: 20,000 features, of which a sample has about 20."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

TEST_SAMPLES = 1000
_SHARES = 8
_LOGITS = 4.0
"""The standard deviation of the true logits."""


class Clicks(NamedTuple):
    """The features of each sample (n, nnz), int64, and whether it is positive (n,), as float32."""

    features: Tensor
    labels: Tensor


class SparseLinear(nn.Module):
    """The sum of a sample's weights, of unit length: each of its features counts 1 / √nnz. Weights (features, 1) begin at zero."""

    def __init__(self, features: int, nnz: int) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag(features, 1, mode="sum")
        self.scale = nnz**-0.5
        nn.init.zeros_(self.weights.weight)

    def forward(self, features: Tensor) -> Tensor:
        """The logits (n,) of samples with these features (n, nnz)."""
        logits: Tensor = self.scale * self.weights(features)[:, 0]
        return logits


@dataclass(frozen=True, slots=True)
class SparseLogistic:
    """The mean logistic loss over `samples`; `penalty` is that of the objective, which is reported as well.

    The penalty's step is the system's: `li-ps` with the same `penalty`. Features are drawn by a power law, so that few are common and most
    are rare; the label depends on `active` of the commonest, by a logistic model. Each worker has its own samples, and at each
    of `steps` computes the gradient of all of them, so that the features that it sees stay the same.
    """

    samples: int = 2000
    features: int = 20_000
    nnz: int = 20
    active: int = 200
    exponent: float = 1.1
    penalty: float = 1e-3
    steps: int = 60
    learning_rate: float = 64.0

    name: ClassVar[str] = "sparse-logistic"
    description: ClassVar[str] = "20,000 features, 20 a sample, and an l1 penalty: for parameter servers and their filters"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            samples=self.samples,
            features=self.features,
            nnz=self.nnz,
            active=self.active,
            exponent=self.exponent,
            penalty=self.penalty,
            steps=self.steps,
            learning_rate=self.learning_rate,
        )
        if self.active > self.features:
            raise WorkloadError(f"{self.name} was given active={self.active} of {self.features} features: give as many or fewer.")

    @property
    def sizes(self) -> Sizes:
        """Both are drawn from the run's seed; a batch is the share of one of 8 workers."""
        return Sizes(self.samples, TEST_SAMPLES, max(1, self.samples // _SHARES), "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = generated(self, worker.seed)
        model: nn.Module = SparseLinear(self.features, self.nnz).to(worker.device)
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(lambda model: measured(model, training, test, self.penalty))

        features, labels = (part[worker.rank :: worker.workers].to(worker.device) for part in training)
        for _ in range(self.steps):
            optimizer.zero_grad()
            worker.count(len(labels))
            loss = F.binary_cross_entropy_with_logits(model(features), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def generated(settings: SparseLogistic, seed: int) -> tuple[Clicks, Clicks]:
    """The samples of a seed to train and to test on."""
    draw = rng.stream(seed, "sparse-logistic", "data")
    chances = (10.0 + np.arange(settings.features)) ** -settings.exponent
    count = settings.samples + TEST_SAMPLES
    features = draw.choice(settings.features, (count, settings.nnz), p=chances / chances.sum())
    truth = np.zeros(settings.features)
    truth[: settings.active] = draw.standard_normal(settings.active)
    logits = truth[features].sum(axis=1)
    labels = draw.random(count) < 1 / (1 + np.exp(-_LOGITS * (logits - logits.mean()) / logits.std()))
    drawn = Clicks(torch.from_numpy(features), torch.from_numpy(labels).float())
    return Clicks(*(part[: settings.samples] for part in drawn)), Clicks(*(part[settings.samples :] for part in drawn))


def measured(model: nn.Module, training: Clicks, test: Clicks, penalty: float) -> dict[str, float]:
    """The held-out loss and accuracy, the objective on the training samples, and the number of weights that are not zero."""
    weights = torch.cat([parameter.detach().view(-1) for parameter in model.parameters()])
    device = weights.device
    with torch.no_grad():
        logits, seen = model(test.features.to(device)).cpu(), model(training.features.to(device)).cpu()
    objective = F.binary_cross_entropy_with_logits(seen, training.labels) + penalty * weights.abs().sum().cpu()
    return {
        "loss": F.binary_cross_entropy_with_logits(logits, test.labels).item(),
        "accuracy": ((logits > 0) == (test.labels > 0)).float().mean().item(),
        "objective": objective.item(),
        "nonzero": float((weights != 0).sum()),
    }
