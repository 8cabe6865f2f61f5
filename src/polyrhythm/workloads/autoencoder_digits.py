"""An auto-encoder of handwritten digits: sixteen numbers for an image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.dbn_digits import pixels
from polyrhythm.workloads.digits import TEST_SAMPLES, TRAINING_SAMPLES
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

_PIXELS, _HIDDEN = 64, 128


@dataclass(frozen=True, slots=True)
class AutoencoderDigits:
    """64-128-`codes`-128-64, trained by the cross-entropy of pixels between 0 and 1; `batch_size` is each worker's own.

    The loss is the mean over images of the sum over pixels, in nats, less the entropy of the pixels themselves.
    """

    codes: int = 16
    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 2e-3

    name: ClassVar[str] = "autoencoder-digits"
    description: ClassVar[str] = "an auto-encoder of the digits, 64 pixels to 16 numbers and back"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(self.name, codes=self.codes, epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate)

    @property
    def sizes(self) -> Sizes:
        """Always the same split."""
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = pixels()
        model: nn.Module = autoencoder(self.codes).to(worker.device)
        optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(partial(measured, x=test.tensors[0].to(worker.device)))

        for _ in worker.epochs(self.epochs):
            for (x,) in worker.batches(TensorDataset(training.tensors[0]), batch_size=self.batch_size):
                optimizer.zero_grad()
                excess(model, x.to(worker.device)).backward()  # type: ignore[no-untyped-call]
                optimizer.step()


def autoencoder(codes: int) -> nn.Module:
    """The network; its output are logits."""
    return nn.Sequential(
        nn.Linear(_PIXELS, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, codes), nn.Linear(codes, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _PIXELS)
    )


def excess(model: nn.Module, x: Tensor) -> Tensor:
    """The cross-entropy of an image, in nats, above the entropy of its pixels, which is 0 where it is exact; mean over a batch."""
    entropy = -(torch.xlogy(x, x) + torch.xlogy(1 - x, 1 - x)).sum()
    return (F.binary_cross_entropy_with_logits(model(x), x, reduction="sum") - entropy) / len(x)


def measured(model: nn.Module, x: Tensor) -> dict[str, float]:
    """The loss on images that are not trained on."""
    with torch.no_grad():
        return {"loss": excess(model, x).item()}
