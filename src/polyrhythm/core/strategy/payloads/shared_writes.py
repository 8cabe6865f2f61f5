"""No payload: the worker's own optimizer steps on weights that all workers share."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.torch_private.one_process import sparse_indices


class SharedWritesPayload:
    """Every step is taken on the shared weights; a sparse gradient writes its rows alone, if the optimizer takes it as it is."""

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        rows = local.parameters.layout.rows
        self.starts = [sum(rows[:k]) for k in range(len(rows))]
        self.all_rows = [torch.arange(start, start + count) for start, count in zip(self.starts, rows, strict=True)]

    @property
    def steps_here(self) -> bool:
        """True: the worker's optimizer takes the steps."""
        return True

    def recipe(self) -> str:
        """Empty: the optimizer stays here."""
        return ""

    def begin(self) -> None: ...

    def rates(self) -> tuple[float, ...]:
        """The learning rates with which the steps were taken."""
        return self.local.optimizer.rates()

    def step(self) -> bool:
        """Step on the shared weights; True: the rows that were written are counted after every step."""
        self.local.check([each.grad for each in self.local.parameters.parameters if each.grad is not None])
        self.local.step(self.rates)
        return True

    def value(self) -> Tensor:
        """The rows (k,) that have a gradient, numbered over all parameters; each once."""
        found = [torch.empty(0, dtype=torch.int64)]
        for parameter, start, rows in zip(self.local.parameters.parameters, self.starts, self.all_rows, strict=True):
            grad = parameter.grad
            if grad is not None:
                found.append(torch.unique(sparse_indices(grad)[0]) + start if grad.is_sparse else rows)
        return torch.cat(found)

    def rest(self) -> None:
        """None: every step was written when it was taken."""
