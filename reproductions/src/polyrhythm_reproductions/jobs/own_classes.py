"""Workers whose problems disagree: the points are sorted by class before they are divided among workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.recipes import OptimizerRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, measured, points, student


@dataclass(frozen=True, slots=True)
class OwnClasses:
    """Softmax regression on the points of `Teacher`, sorted by class before they are divided: a convex problem.

    With a `batch_size` of a worker's whole share nothing is drawn at random, and an epoch is a step.
    """

    recipe: OptimizerRecipe
    epochs: int
    batch_size: int
    samples: int = 8192

    name: ClassVar[str] = "own-classes"
    description: ClassVar[str] = "softmax regression, where each worker has classes of its own"
    metric: ClassVar[Metric] = Teacher.metric

    @property
    def sizes(self) -> Sizes:
        return Teacher(samples=self.samples, batch_size=self.batch_size).sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = points(self.samples)
        model = student(0, 0)
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        shares: Any = SortedShares(training)
        for _ in range(self.epochs):
            for x, y in worker.batches(shares, batch_size=self.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()


class SortedShares:
    """Points that divide themselves among workers by class (a `ShardedSource`)."""

    repeats: ClassVar[bool] = True
    drop_last: ClassVar[bool] = False

    def __init__(self, dataset: TensorDataset) -> None:
        x, y = dataset.tensors
        order = y.argsort(stable=True)
        self.x, self.y = x[order], y[order]

    @property
    def samples(self) -> int:
        """The number of all points."""
        return len(self.y)

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """Neighbours in the order of classes, the same in each epoch."""
        size, more = divmod(self.samples, request.workers)
        first = request.rank * size + min(request.rank, more)
        part = slice(first + request.skip, first + size + (request.rank < more))
        yield {"x": self.x[part], "y": self.y[part]}

    def batch(self, rows: Rows) -> tuple[Tensor, ...]:
        """The points and their classes as tensors."""
        assert isinstance(rows, dict)
        return tuple(column for column in (rows["x"], rows["y"]) if isinstance(column, Tensor))
