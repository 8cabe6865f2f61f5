"""The norm of the gradient along a training, which theorems about convergence are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.teacher import Teacher, points, student


@dataclass(frozen=True, slots=True)
class Gradients:
    """`teacher`, trained for one epoch; the metric is the squared norm of the gradient of the mean loss over points to test on."""

    teacher: Teacher

    name: ClassVar[str] = "gradients"
    description: ClassVar[str] = "an MLP that learns the classes of a random network, and how steep its loss still is"
    metric: ClassVar[Metric] = Metric("squared norm", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        return self.teacher.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = points(self.teacher.samples)
        model = student(self.teacher.width, self.teacher.depth)
        model, optimizer = worker.attach(model, self.teacher.recipe.build(model.parameters()))
        worker.evaluate(lambda model: {"squared norm": squared_norm(model, test)})
        for x, y in worker.batches(training, batch_size=self.teacher.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def squared_norm(model: nn.Module, dataset: TensorDataset) -> float:
    """The squared norm of the gradient of the mean cross-entropy over `dataset`."""
    x, y = dataset.tensors
    with torch.enable_grad():
        slopes = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    return sum(slope.square().sum().item() for slope in slopes)
