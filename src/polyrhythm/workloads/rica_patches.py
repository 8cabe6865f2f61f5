"""Reconstruction ICA with pooling, on patches of photographs: a stage of the network that learned faces and cats (Le et al., 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.rica.fields import FieldSizes, LocalFields, gradient, objective
from polyrhythm.workloads.rica.photographs import patches
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

TEST_PATCHES = 1000
SIDE, FIELD, STRIDE, POOL = 16, 8, 2, 3
KEPT = 80
"""Principal components of 256 that whitening keeps: what is finer than about 1.8 pixels is left out."""


@dataclass(frozen=True, slots=True)
class RicaPatches:
    """`maps` filters at each of 5 x 5 places of a patch, pooled over 3 x 3 places; the rate falls to zero in a straight line by epochs.

    `sparsity` is λ of the objective, which is the metric, on patches of parts of the photographs that are not trained on. Gradients are
    sums, written by hand. `batch_size` is each worker's own. Needs Pillow, of the extra `photographs`, to open the photographs.
    """

    patches: int = 8000
    maps: int = 3
    sparsity: float = 0.1
    epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 0.02
    momentum: float = 0.9

    name: ClassVar[str] = "rica-patches"
    description: ClassVar[str] = "reconstruction ICA with pooling on patches of two photographs: filters become oriented edges"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            patches=self.patches,
            maps=self.maps,
            sparsity=self.sparsity,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )
        if not 0 <= self.momentum < 1:
            raise WorkloadError(f"{self.name} was given momentum={self.momentum}: it must be at least 0 and below 1.")

    @property
    def sizes(self) -> Sizes:
        """Patches are drawn from the run's seed, those to test on from other parts of the photographs."""
        return Sizes(self.patches, TEST_PATCHES, self.batch_size, "patches of bundled photographs")

    @property
    def fields(self) -> FieldSizes:
        """The sizes of the filters and pools."""
        return FieldSizes(SIDE, FIELD, STRIDE, self.maps, POOL)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = patches(self.patches, TEST_PATCHES, SIDE, KEPT, worker.seed)
        learn(worker, self, training, test)


def learn(worker: WorkloadWorker, settings: RicaPatches, training: Tensor, test: Tensor) -> None:
    """Train filters on images (n, 256), as one of the workers; the objective is evaluated on those to test on."""
    fields = LocalFields(settings.fields).to(worker.device)
    model: nn.Module = fields
    optimizer: torch.optim.Optimizer = torch.optim.SGD(fields.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    model, optimizer = worker.attach(model, optimizer)

    def measured(model: Any) -> dict[str, float]:
        with torch.no_grad():
            return {settings.metric.name: objective(model, test.to(worker.device), settings.sparsity).item()}

    worker.evaluate(measured)
    for epoch in worker.epochs(settings.epochs):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - epoch / settings.epochs)
        for (images,) in worker.batches(TensorDataset(training), batch_size=settings.batch_size):
            optimizer.zero_grad()
            fields.weight.grad = gradient(fields, images.to(worker.device), settings.sparsity) / settings.batch_size
            optimizer.step()
