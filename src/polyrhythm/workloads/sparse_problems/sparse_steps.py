"""Steps that write the rows of a few samples only, at a rate that decays by epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker


class RowGradient(NamedTuple):
    """The gradient of a batch: `values` (k, columns) of `rows` (k,), of which one may be there several times. All other rows have none."""

    rows: Tensor
    values: Tensor


class SharedRows(nn.Module):
    """Weights (rows, columns) of which a sample touches a few rows."""

    def __init__(self, beginning: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(beginning.clone())


@dataclass(frozen=True, slots=True)
class SparseSteps:
    """SGD for `epochs` on batches of `batch_size`, each worker's own, at a rate times `decay` after each epoch (section 5 of the paper)."""

    epochs: int
    batch_size: int
    learning_rate: float
    decay: float

    def train(
        self,
        worker: WorkloadWorker,
        model: SharedRows,
        dataset: TensorDataset,
        gradient: Callable[[Tensor, tuple[Tensor, ...], float], RowGradient],
        evaluate: Callable[[Tensor], Mapping[str, float]],
    ) -> None:
        """Train `model`; `gradient` gets its rows, a batch and the learning rate, and returns the sum over the batch, of which the
        part of one in `batch_size` is taken.
        """
        rows = model.to(worker.device).rows
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        _, optimizer = worker.attach(model, optimizer)

        def measured(model: Any) -> Mapping[str, float]:
            return evaluate(model.rows.detach().cpu())

        worker.evaluate(measured)
        for epoch in worker.epochs(self.epochs):
            rate = self.learning_rate * self.decay**epoch
            for group in optimizer.param_groups:
                group["lr"] = rate
            for batch in worker.batches(dataset, batch_size=self.batch_size):
                optimizer.zero_grad()
                on_device = tuple(each.to(worker.device) for each in batch)
                with torch.no_grad():
                    found = gradient(rows.detach(), on_device, rate / self.batch_size)
                    values = found.values / self.batch_size
                    indices = found.rows.unsqueeze(0)
                    rows.grad = torch.sparse_coo_tensor(indices, values, rows.shape, check_invariants=False).coalesce()
                optimizer.step()
