"""Puts blocks into fast memory as a plan has it, or on demand where there is none, and records what was accessed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging.planner import MemoryPlan, plan_memory
from polyrhythm_reproductions.paging.residents import Residents
from polyrhythm_reproductions.paging.trace import AccessTrace, TracedOperation


class Pager:
    """`at` is the operation of the plan that is under way; None where the plan was left, or there is none yet.

    `made` are values that are used once more: they are freed after the operation that reads them.
    """

    def __init__(self, budget: int, device: torch.device) -> None:
        self.residents = Residents(budget, device)
        self.plan: MemoryPlan | None = None
        self.broken = 0
        self.at: int | None = None
        self.operations: list[TracedOperation] = []
        self.sizes: dict[str, int] = {}
        self.made: set[str] = set()
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.name, self.flops = "", 0.0

    def begin(self, homes: Mapping[str, Tensor]) -> None:
        """An iteration begins; these blocks have a place outside, in which their values may have changed."""
        self.residents.adopt(homes)
        for block in sorted(self.made):  # of one whose backward() was left out
            self.residents.free(block)
        self.made.clear()
        self.operations, self.sizes, self.reads, self.writes = [], {}, {}, {}
        self.at = None if self.plan is None else 0 if not self.plan.trace.operations[0].name else -1
        self.name, self.flops = "", 0.0

    def next(self, name: str, flops: float) -> None:
        """The next operation begins."""
        self._close()
        self.name, self.flops = name, flops
        if self.at is None or self.plan is None:
            return
        self.at += 1
        operations = self.plan.trace.operations
        if self.at >= len(operations) or operations[self.at].name != name:
            self._leave()
            return
        window = self.plan.windows[self.at]
        for block in [each for each in self.residents.there if each not in self.plan.pinned and each not in window]:
            self.residents.evict(block)
        for block in window:
            if self.residents.known(block):
                self.residents.get(block, window)

    def read(self, block: str) -> Tensor:
        """A block's value in fast memory. Raises CompositionError for what was freed."""
        if not self.residents.known(block):
            raise CompositionError(
                f"{block} is needed a second time: one backward() for a forward pass is what a plan can foresee, so leave retain_graph out."
            )
        value = self.residents.get(block, self._held(block))
        self._note(block, value.nbytes, self.reads)
        return value

    def make(self, block: str, value: Tensor) -> None:
        """A block was made that backward() will read."""
        self._note(block, value.nbytes, self.writes)
        self.residents.make_room(value.nbytes, self._held(block), block)
        self.residents.put(block, value)
        self.made.add(block)

    def end(self) -> None:
        """The iteration has ended: if it was not as planned, plan the next by it."""
        self._close()
        if self.plan is not None and self.at is not None and self.at + 1 != len(self.plan.trace.operations):
            self._leave()
        if self.at is None:
            self.plan = plan_memory(self.trace(), self.residents.budget)

    def trace(self) -> AccessTrace:
        """The accesses of the iteration so far."""
        last = {block: k for k, each in enumerate(self.operations) for block in each.blocks if block not in self.residents.homes}
        freed: dict[int, list[str]] = {}
        for block, k in last.items():
            freed.setdefault(k, []).append(block)
        operations = [
            TracedOperation(each.name, each.reads, each.writes, tuple(freed.get(k, ())), each.flops)
            for k, each in enumerate(self.operations)
        ]
        return AccessTrace(tuple(operations), dict(self.sizes))

    def _held(self, block: str) -> set[str]:
        return {block, *self.reads, *self.writes}

    def _note(self, block: str, nbytes: int, where: dict[str, None]) -> None:
        where[block] = None
        self.sizes[block] = nbytes
        if self.at is None or self.plan is None:
            return
        expected = self.plan.trace.operations[self.at] if self.at >= 0 else TracedOperation("")
        if block not in expected.blocks or self.plan.trace.sizes[block] != nbytes:
            self._leave()

    def _leave(self) -> None:
        """The trace has broken: on demand from now on."""
        self.at = None
        self.broken += 1

    def _close(self) -> None:
        """The operation has ended."""
        if self.reads or self.writes:
            self.operations.append(TracedOperation(self.name, tuple(self.reads), tuple(self.writes), flops=self.flops))
        for block in sorted(self.made & self.reads.keys()):
            self.residents.free(block)
            self.made.discard(block)
        self.reads, self.writes = {}, {}
