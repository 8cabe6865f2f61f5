"""The task of `teacher` at a learning rate that falls with the root of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.recipes import OptimizerRecipe
from polyrhythm_reproductions.jobs.teacher import measured, points, student


@dataclass(frozen=True, slots=True)
class FallingRate:
    """A student of two hidden layers of `width`; each worker takes `steps` on batches of `batch_size`, step t at η / √t."""

    recipe: OptimizerRecipe
    workers: int
    steps: int
    batch_size: int = 16
    width: int = 64

    name: ClassVar[str] = "falling-rate"
    description: ClassVar[str] = "an MLP that learns the classes of a random network, at a rate that falls; milliseconds a step"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        """No point is seen twice."""
        training, test = points(self.workers * self.steps * self.batch_size)
        return Sizes(len(training), len(test), self.batch_size, "generated from a seed")

    @property
    def elements(self) -> int:
        """The number of elements of the student's parameters."""
        return sum(parameter.numel() for parameter in student(self.width, 2).parameters())

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = points(self.workers * self.steps * self.batch_size)
        model = student(self.width, 2)
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        for step, (x, y) in enumerate(worker.batches(training, batch_size=self.batch_size), 1):
            for group in optimizer.param_groups:
                group["lr"] = self.recipe.learning_rate / step**0.5
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
