"""The methods of a worker that a bundled training function uses.

The workloads take such a worker; `training.worker.Worker` is the one that they get in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.core.tables.table import Table


class WorkloadWorker(Protocol):
    """One of `workers` copies of a training function, seen from inside it."""

    @property
    def rank(self) -> int:
        """The rank of this worker, from 0."""

    @property
    def workers(self) -> int:
        """The number of workers in the run."""

    @property
    def device(self) -> str:
        """The torch device to train on: "cpu", "cuda:0"."""

    @property
    def seed(self) -> int:
        """The run's seed, the same in every worker."""

    def attach(self, model: nn.Module, optimizer: Optimizer, *, name: str | None = None) -> tuple[nn.Module, Optimizer]:
        """Put the strategy behind `optimizer.step()`."""

    def keep(self, **objects: Any) -> None:
        """Include objects with `state_dict` and `load_state_dict` in checkpoints."""

    @property
    def crew(self) -> View:
        """The workers that are there now."""

    def table(
        self, name: str, *, rows: int, columns: int = 1, row: RowKind | None = None, initial: Tensor | None = None, cache: int | None = None
    ) -> Table:
        """Open a table of numbers that all workers share."""

    def batches(self, dataset: Dataset[Any], batch_size: int = 32) -> Iterable[tuple[Tensor, ...]]:
        """This worker's batches of one epoch: shuffled together with the other workers', shared with none of them."""

    def epochs(self, count: int) -> Iterable[int]:
        """The numbers of so many epochs, from the present one in a resumed run and at a worker that joins."""

    def range(self, *bounds: int) -> Iterable[int]:
        """The numbers of `range(...)`, from where a resumed run was: for steps without batches."""

    def evaluate(self, function: Callable[..., Mapping[str, Any]]) -> None:
        """Evaluate the result with `function(model)` at the moments of a grid, at no charge."""

    def broadcast(self, value: Any) -> Any:
        """Worker 0's value at every worker."""

    def count(self, samples: int) -> None:
        """Count samples as used by the next step."""

    def report(self, **metrics: float) -> None:
        """Record metrics as they are now."""

    def finish(self) -> None:
        """Merge what is outstanding; afterwards the model holds the run's final weights."""
