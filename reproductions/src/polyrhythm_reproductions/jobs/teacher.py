"""Classes that a random network gives to random points: cheap, and not learned perfectly, so that methods can be distinguished. Most
reproductions train on it, and other jobs take its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.recipes import OptimizerRecipe, SgdRecipe

_DIMENSIONS, _CLASSES, _HIDDEN, _TEST = 20, 10, 8, 2048


@cache
def points(samples: int) -> tuple[TensorDataset, TensorDataset]:
    """`samples` points to train on and 2,048 others to test on: normal in 20 dimensions, with the class that a fixed random network
    of one hidden layer scores highest. The same for every seed of a run.
    """
    draw = torch.Generator().manual_seed(1)
    first = torch.randn(_DIMENSIONS, _HIDDEN, generator=draw) / _DIMENSIONS**0.5
    second = torch.randn(_HIDDEN, _CLASSES, generator=draw)
    x = torch.randn(samples + _TEST, _DIMENSIONS, generator=draw)
    y = (torch.tanh(1.5 * x @ first) @ second).argmax(dim=1)
    return TensorDataset(x[:samples], y[:samples]), TensorDataset(x[samples:], y[samples:])


def student(width: int, depth: int) -> nn.Module:
    """A perceptron of `depth` hidden layers of `width`."""
    sizes = [_DIMENSIONS, *(width for _ in range(depth))]
    hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], _CLASSES))


def measured(model: nn.Module, dataset: TensorDataset) -> dict[str, float]:
    """Mean cross-entropy in nats, and accuracy."""
    x, y = dataset.tensors
    scores: Tensor = model(x)
    return {"loss": F.cross_entropy(scores, y).item(), "accuracy": (scores.argmax(dim=1) == y).float().mean().item()}


@dataclass(frozen=True, slots=True)
class Teacher:
    """A student of 20,500 parameters by default; `batch_size` is each worker's own. All workers together see `samples` in an epoch.

    The learning rate is divided by 10 after as many epochs as `milestones` name.
    """

    recipe: OptimizerRecipe = SgdRecipe(0.03, 0.9)  # noqa: RUF009 (a frozen value)
    epochs: int = 4
    batch_size: int = 16
    samples: int = 8192
    width: int = 128
    depth: int = 2
    milestones: tuple[int, ...] = ()

    name: ClassVar[str] = "teacher"
    description: ClassVar[str] = "an MLP that learns the classes of a random network; milliseconds a step"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        """None of the points to test on is trained on."""
        return Sizes(self.samples, _TEST, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = points(self.samples)
        model = student(self.width, self.depth)
        model, optimizer = worker.attach(model, self.recipe.build(model.parameters()))
        worker.evaluate(lambda model: measured(model, test))
        for epoch in range(self.epochs):
            for group in optimizer.param_groups:
                group["lr"] *= 0.1 if epoch in self.milestones else 1.0
            for x, y in worker.batches(training, batch_size=self.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
