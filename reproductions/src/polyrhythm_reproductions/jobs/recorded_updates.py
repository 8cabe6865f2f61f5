"""A workload whose updates are kept in the order in which they are made, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.workload import Metric, Sizes, Workload


@dataclass(frozen=True, slots=True)
class RecordedUpdates:
    """`job`, with the mean correlation of one worker's update with the one before it, of whichever worker, as another metric."""

    job: Workload
    updates: list[Tensor] = field(default_factory=list, repr=False, compare=False)

    name: ClassVar[str] = "recorded-updates"
    description: ClassVar[str] = "a workload whose updates are kept, in order"
    metric: ClassVar[Metric] = Metric("score", higher_is_better=True)

    @property
    def sizes(self) -> Sizes:
        return self.job.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        self.job(cast(WorkloadWorker, _Recording(worker, self.updates)))


class _Recording:
    """A worker that notes each gradient when its optimizer steps."""

    def __init__(self, worker: WorkloadWorker, updates: list[Tensor]) -> None:
        self.worker = worker
        self.updates = updates

    def __getattr__(self, name: str) -> Any:
        return getattr(self.worker, name)

    def attach(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        def note(*step: Any) -> None:
            parts = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
            self.updates.append(torch.cat(parts).clone())

        optimizer.register_step_pre_hook(note)
        return self.worker.attach(model, optimizer)

    def evaluate(self, function: Callable[..., Mapping[str, Any]]) -> None:
        self.worker.evaluate(lambda *subjects: {**function(*subjects), "correlation": correlation(self.updates)})


def correlation(updates: list[Tensor]) -> float:
    """The mean cosine of the angle between an update and the next."""
    if len(updates) < 2:
        return 0.0
    stacked = torch.stack(updates)
    return float(F.cosine_similarity(stacked[1:], stacked[:-1], dim=1).mean())
