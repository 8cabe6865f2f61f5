"""What is to be trained: a model function, a loss, an optimizer, and data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from polyrhythm.core.settings import checked
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.partition.explained import Subject


@dataclass(frozen=True, slots=True)
@checked
class LayoutJob:
    """A model that `make` makes, trained by `optimizer` for the mean `loss` of outputs and targets.

    `batch_size` counts the samples of a step of all workers together. `data` are the inputs and the targets of the samples, tensors whose
    first dimension is the samples. Raises CompositionError for others.

    Examples:
        >>> data = (torch.ones(8, 3), torch.zeros(8, 1))
        >>> job = LayoutJob(lambda: nn.Linear(3, 1), nn.functional.mse_loss, partial(torch.optim.SGD, lr=0.1), data, batch_size=4)
        >>> job.steps_of_an_epoch
        2
    """

    make: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    data: tuple[Tensor, Tensor]
    batch_size: int

    def __post_init__(self) -> None:
        inputs, targets = self.data
        if len(inputs) != len(targets) or not 1 <= self.batch_size <= len(inputs):
            raise CompositionError(
                f"data has {len(inputs)} inputs and {len(targets)} targets, and batch_size={self.batch_size}: give as many targets as "
                "inputs, and at least those of a batch."
            )

    @property
    def steps_of_an_epoch(self) -> int:
        """The batches that the data have."""
        return len(self.data[0]) // self.batch_size

    def subject(self, replicas: int) -> Subject:
        """What one of so many replicas trains in a step."""
        rows = self.batch_size // replicas
        inputs, targets = (each[:rows] for each in self.data)
        return Subject(self.make, inputs, targets, self.loss, self.optimizer)

    def training(self, steps: int) -> Callable[[Worker], None]:
        """A training function of so many steps, in which each worker reports the loss of each."""
        return partial(_train, self, steps)


def _train(job: LayoutJob, steps: int, worker: Worker) -> None:
    torch.manual_seed(0)
    model = job.make()
    model, optimizer = worker.attach(model, job.optimizer(model.parameters()), loss=job.loss)
    done = 0
    while done < steps:
        for inputs, targets in worker.batches(
            job.data, batch_size=job.batch_size // worker.replicas, steps=min(steps - done, job.steps_of_an_epoch)
        ):
            done += 1
            optimizer.zero_grad()
            found = worker.train_step(inputs, targets)
            optimizer.step()
            if not found.isnan():  # of a pipeline that is not full yet
                worker.report(loss=found)
