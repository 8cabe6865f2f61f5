"""Workers with classes of their own that say how they do on common samples, and in the end how well each of them has learned all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.own_classes import SortedShares
from polyrhythm_reproductions.jobs.recipes import OptimizerRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, measured, points, student

_HELD_OUT = 256


@dataclass(frozen=True, slots=True)
class SkewedShares:
    """The points of `Teacher`, sorted by class before they are divided; a worker reports its loss on common samples every `every` steps.

    The common samples are 256 points that nobody trains on and that the test does not have. At the end each reports its own accuracy.
    """

    recipe: OptimizerRecipe
    epochs: int
    batch_size: int
    every: int = 5
    samples: int = 4096
    width: int = 64

    name: ClassVar[str] = "skewed-shares"
    description: ClassVar[str] = "a perceptron, where each worker has classes of its own and all know how each of them does"
    metric: ClassVar[Metric] = Teacher.metric

    @property
    def sizes(self) -> Sizes:
        return Teacher(samples=self.samples, batch_size=self.batch_size).sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        everything, test = points(self.samples + _HELD_OUT)
        x, y = everything.tensors
        held_out = x[self.samples :], y[self.samples :]
        model = student(self.width, 1)
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        shares: Any = SortedShares(torch.utils.data.TensorDataset(x[: self.samples], y[: self.samples]))
        step = 0
        for _ in range(self.epochs):
            for inputs, classes in worker.batches(shares, batch_size=self.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), classes).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
                if step % self.every == 0:
                    with torch.no_grad():
                        worker.report(loss=F.cross_entropy(model(held_out[0]), held_out[1]).item())
        worker.report(own=measured(model, test)["accuracy"])
