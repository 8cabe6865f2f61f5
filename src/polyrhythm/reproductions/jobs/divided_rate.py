"""A teacher's training whose learning rate is divided as training goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F

from polyrhythm.reproductions.jobs.teacher import Teacher, measured, points, student
from polyrhythm.workloads.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes


@dataclass(frozen=True, slots=True)
class DividedRate:
    """`teacher`, with a learning rate that is multiplied by `factor` after as many epochs as `milestones` name."""

    teacher: Teacher
    milestones: tuple[int, ...]
    factor: float = 0.1

    name: ClassVar[str] = "divided-rate"
    description: ClassVar[str] = "a teacher's student whose learning rate is divided at milestones"
    metric: ClassVar[Metric] = Teacher.metric

    @property
    def sizes(self) -> Sizes:
        """As of the teacher."""
        return self.teacher.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        teacher = self.teacher
        training, test = points(teacher.samples)
        model = student(teacher.width, teacher.depth)
        model, optimizer = worker.attach(model, teacher.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        for epoch in range(teacher.epochs):
            for group in optimizer.param_groups:
                group["lr"] *= self.factor if epoch in self.milestones else 1.0
            for x, y in worker.batches(training, batch_size=teacher.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
