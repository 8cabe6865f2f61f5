"""A recurrent stack, whose layers are used in the same order at each time step: a cyclic sequence of accesses."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.recipes import OptimizerRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, measured, points
from polyrhythm_reproductions.paging import PagedModel

INPUTS, CLASSES = 20, 10


class Recurrent(nn.Module):
    """`layers` of `width`, gone through `times` times with the input added before each."""

    def __init__(self, layers: int, times: int, width: int) -> None:
        super().__init__()
        self.times = times
        self.enter = nn.Linear(INPUTS, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.leave = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        given = self.enter(x)
        hidden = given
        for _ in range(self.times):
            hidden = hidden + given
            for layer in self.layers:
                hidden = hidden + 0.2 * layer(hidden).tanh()
        scores: Tensor = self.leave(hidden)
        return scores


@dataclass(frozen=True, slots=True)
class RecurrentStack:
    """The points of `Teacher`; with a `budget` in so many bytes of fast memory."""

    recipe: OptimizerRecipe
    epochs: int
    batch_size: int
    budget: int | None = None
    samples: int = 512
    layers: int = 8
    times: int = 4
    width: int = 48

    name: ClassVar[str] = "recurrent-stack"
    description: ClassVar[str] = "layers that are used again and again, in little memory"
    metric: ClassVar[Metric] = Teacher.metric

    @property
    def sizes(self) -> Sizes:
        return Teacher(samples=self.samples, batch_size=self.batch_size).sizes

    def build(self) -> Recurrent:
        """The untrained model of these settings."""
        return Recurrent(self.layers, self.times, self.width)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = points(self.samples)
        model: nn.Module = self.build()
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        paged = None if self.budget is None else PagedModel(model, self.budget)
        for _ in range(self.epochs):
            for x, y in worker.batches(training, batch_size=self.batch_size):
                optimizer.zero_grad()
                with nullcontext() if paged is None else paged.iteration():
                    F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
