"""The methods of a worker that a bundled training function uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset


class WorkloadWorker(Protocol):
    """One of `workers` copies of a training function, seen from inside it."""

    @property
    def rank(self) -> int:
        """Which of them, from 0."""

    @property
    def workers(self) -> int:
        """How many there are."""

    @property
    def device(self) -> str:
        """The torch device to train on: "cpu", "cuda:0"."""

    @property
    def seed(self) -> int:
        """The run's seed, the same in every worker."""

    def attach(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Put the strategy behind `optimizer.step()`."""

    def batches(self, dataset: Dataset[Any], batch_size: int = 32) -> Iterable[tuple[Tensor, ...]]:
        """This worker's batches of one epoch: shuffled together with the other workers', shared with none of them."""

    def evaluate(self, function: Callable[..., Mapping[str, Any]]) -> None:
        """Evaluate the result with `function(model)` at the moments of a grid, at no charge."""

    def report(self, **metrics: float) -> None:
        """Record metrics as they are now."""

    def finish(self) -> None:
        """Merge what is outstanding; afterwards the model holds the run's final weights."""
