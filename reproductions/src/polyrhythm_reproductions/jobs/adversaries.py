"""Workers whose gradients point the wrong way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.core.tables.table import Table
from polyrhythm.workloads.workload import Metric, Sizes
from polyrhythm_reproductions.jobs.teacher import Teacher


@dataclass(frozen=True, slots=True)
class Adversaries:
    """`job`, in which the first `count` workers invert the sign of their gradients (Bernstein et al., 2019, section 4.3)."""

    job: Teacher
    count: int

    name: ClassVar[str] = "adversaries"
    description: ClassVar[str] = "teacher, where some workers invert the sign of their gradients"
    metric: ClassVar[Metric] = Teacher.metric

    @property
    def sizes(self) -> Sizes:
        return self.job.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        self.job(_Inverting(worker) if worker.rank < self.count else worker)


@dataclass(frozen=True, slots=True)
class _Inverting:
    """A worker whose gradients are those of the loss times -1."""

    worker: WorkloadWorker

    @property
    def rank(self) -> int:
        return self.worker.rank

    @property
    def workers(self) -> int:
        return self.worker.workers

    @property
    def device(self) -> str:
        return self.worker.device

    @property
    def seed(self) -> int:
        return self.worker.seed

    def attach(self, model: nn.Module, optimizer: Optimizer, *, name: str | None = None) -> tuple[nn.Module, Optimizer]:
        for parameter in model.parameters():
            parameter.register_hook(Tensor.neg)  # type: ignore[no-untyped-call]
        return self.worker.attach(model, optimizer, name=name)

    def keep(self, **objects: Any) -> None:
        self.worker.keep(**objects)

    def batches(self, dataset: Dataset[Any], batch_size: int = 32) -> Iterable[tuple[Tensor, ...]]:
        return self.worker.batches(dataset, batch_size)

    def epochs(self, count: int) -> Iterable[int]:
        return self.worker.epochs(count)

    @property
    def crew(self) -> View:
        return self.worker.crew

    def range(self, *bounds: int) -> Iterable[int]:
        return self.worker.range(*bounds)

    def table(
        self, name: str, *, rows: int, columns: int = 1, row: RowKind | None = None, initial: Tensor | None = None, cache: int | None = None
    ) -> Table:
        return self.worker.table(name, rows=rows, columns=columns, row=row, initial=initial, cache=cache)

    def broadcast(self, value: Any) -> Any:
        return self.worker.broadcast(value)

    def count(self, samples: int) -> None:
        self.worker.count(samples)

    def evaluate(self, function: Callable[..., Mapping[str, Any]]) -> None:
        self.worker.evaluate(function)

    def report(self, **metrics: float) -> None:
        self.worker.report(**metrics)

    def finish(self) -> None:
        self.worker.finish()
