"""The exclusive or of two bits: a network of nine parameters, for methods whose effect is in single elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

TEST_SAMPLES = 1000
_BEGINNING = (0.9, -1.1, -0.8, 1.2, 0.1, -0.1, 1.1, 0.8, 0.1)


def samples(count: int, noise: float, seed: int, name: str) -> TensorDataset:
    """Two bits (count, 2), each plus normal noise of that deviation, and their exclusive or (count, 1); all float32."""
    draw = rng.stream(seed, "xor", name)
    bits = draw.integers(0, 2, (count, 2))
    x = bits + noise * draw.standard_normal((count, 2))
    return TensorDataset(torch.from_numpy(x).float(), torch.from_numpy(bits[:, :1] ^ bits[:, 1:]).float())


def network() -> nn.Module:
    """Two inputs, two hidden units and one output, all sigmoid: nine parameters, always near the same to begin with.

    About three in ten random beginnings of a network of this size end in a local minimum, whatever it is trained with.
    """
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 1), nn.Sigmoid())
    near = torch.tensor(_BEGINNING) + 0.05 * torch.randn(len(_BEGINNING))
    nn.utils.vector_to_parameters(near, model.parameters())
    return model


def squared_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Half the squared error, the mean over a batch."""
    return (predicted - target).square().mean() / 2


@dataclass(frozen=True, slots=True)
class Xor:
    """One epoch of `samples`, which are divided among the workers; `batch_size` is each worker's own.

    The example of Addair (2017): 2-2-1, sigmoid, 50,000 samples over 25 replicas, and rates of 0.2, 0.5 and 0.8.
    """

    samples: int = 50_000
    batch_size: int = 1
    learning_rate: float = 0.5
    noise: float = 0.1

    name: ClassVar[str] = "xor"
    description: ClassVar[str] = "the exclusive or of two bits by nine parameters: many small steps, for thresholds and delays"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    def __post_init__(self) -> None:
        require_positive(self.name, samples=self.samples, batch_size=self.batch_size, learning_rate=self.learning_rate)
        if not 0 <= self.noise <= 1:
            raise WorkloadError(f"{self.name} was given noise={self.noise}: it is the deviation of a bit, so give 0 to 1.")

    @property
    def sizes(self) -> Sizes:
        """The samples to train and to test on are both drawn from the run's seed, by separate streams."""
        return Sizes(self.samples, TEST_SAMPLES, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = (
            samples(count, self.noise, worker.seed, name) for count, name in ((self.samples, "train"), (TEST_SAMPLES, "test"))
        )
        model = network().to(worker.device)
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(lambda model: measured(model, test, worker.device))

        for x, y in worker.batches(training, batch_size=self.batch_size):
            optimizer.zero_grad()
            loss = squared_error(model(x.to(worker.device)), y.to(worker.device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def measured(model: nn.Module, dataset: TensorDataset, device: str) -> dict[str, float]:
    """The error, and the share of `dataset` whose output is on the right side of one half."""
    x, y = (tensor.to(device) for tensor in dataset.tensors)
    with torch.no_grad():
        predicted = model(x)
    return {"loss": squared_error(predicted, y).item(), "accuracy": ((predicted > 0.5) == (y > 0.5)).float().mean().item()}
