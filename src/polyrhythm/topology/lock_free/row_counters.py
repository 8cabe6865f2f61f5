"""Counters for the rows of weights that workers share without locks, which show how many writes were lost."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.offers import RowWrites
from polyrhythm.core.trees import StateTree

_COUNT = torch.int32


class RowCounters:
    """`common` (rows,) is written to by all, in the same way as the weights; `own` (P, rows) by each worker alone.

    How far these differ at the end is how many writes were lost.
    """

    def __init__(self, memory: Tensor, group: Group) -> None:
        counters = memory.view(_COUNT).view(1 + group.size, -1)
        self.common, self.own = counters[0], counters[1:]
        self.group = group

    @staticmethod
    def place(before: int, rows: int, workers: int) -> tuple[int, int]:
        """The first byte of the counters and the one after their last, behind `before` other bytes."""
        begin = before + -before % _COUNT.itemsize
        return begin, begin + rows * _COUNT.itemsize * (1 + workers)

    def count(self, rows: Tensor) -> None:
        """This worker has written to `rows` (k,), each once."""
        for counters in (self.own[self.group.rank], self.common):  # the worker's own first, so that no loss is counted that was none
            if rows.numel() == counters.numel():
                counters.add_(1)  # reads, adds and writes element by element, as the optimizer does with the weights
            else:
                counters.index_add_(0, rows, torch.ones(rows.numel(), dtype=_COUNT))

    def writes(self) -> RowWrites:
        """The rows that all have written, and the lost writes; for when nobody writes any more."""
        written = int(self.own.sum())
        return RowWrites(written, written - int(self.common.sum()))

    def export(self) -> StateTree:
        return {"own": self.own[self.group.rank], "common": self.common if self.group.is_first else None}

    def restore(self, state: StateTree) -> None:
        self.own[self.group.rank].copy_(state["own"])
        if self.group.is_first:
            self.common.copy_(state["common"])
