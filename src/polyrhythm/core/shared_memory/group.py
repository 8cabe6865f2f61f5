"""A group of processes on one host, as tensors see it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from operator import attrgetter

import torch
from torch import Tensor

from polyrhythm.core.shared_memory.engine import ADDS, Attachment, Reducer, ReduceSpec
from polyrhythm.core.shared_memory.portable import OPERATIONS, Portable
from polyrhythm.core.shared_memory.segment import CHUNK, SharedSegment

try:
    from polyrhythm.core.shared_memory.native import Native
except ModuleNotFoundError as missing:
    if missing.name != "polyrhythm.core.shared_memory._native":
        raise
    Native = Portable  # type: ignore[misc, assignment]  # no C compiler was at hand at the installation

_NBYTES = attrgetter("nbytes")
SPINS = 2000
"""About 20 microseconds: less than it takes to sleep and be woken."""


def can_share() -> bool:
    """True if processes of this machine can be a group: without the engine in C only where the processor keeps the order of writes."""
    engine: type = Native
    return engine is not Portable or platform.machine() in ("x86_64", "AMD64")


class Operation(IntEnum):
    """The operation of a reduction on two numbers; the last three are for whole numbers."""

    SUM = 0
    PRODUCT = 1
    MINIMUM = 2
    MAXIMUM = 3
    AND = 4
    OR = 5
    XOR = 6


class MemoryGroup:
    """Rank `rank` among those who share `segment`. All must call the same methods in the same order, with tensors of equal size.

    Tensors are on the CPU and contiguous. A rank that was lost while it was waited for raises ConnectionAbortedError, and so does one that
    has started another collective, or one of another size or type; the group is of no use then. Ctrl-C raises as ever.
    """

    def __init__(self, segment: SharedSegment, rank: int, engine: type[Native] | type[Portable] = Native) -> None:
        self.rank = rank
        self.ranks = segment.ranks
        spins = SPINS if segment.ranks <= len(os.sched_getaffinity(0)) else 0
        self._counts = segment.counts
        self._engine: Reducer = engine(Attachment(segment, rank, spins))

    def reduce(
        self, tensor: Tensor, into: Tensor, operation: Operation = Operation.SUM, divisor: float = 1.0, *, rotated: bool = False
    ) -> None:
        """The sum of everyone's `tensor`, divided by `divisor`, into `into` (which may be `tensor`), with the same bits for everybody.

        Ranks are added up in order, beginning with rank 0; `rotated`: of the P parts that torch.tensor_split makes, part k begins
        with rank k.
        """
        self._reduce(tensor, into, ReduceSpec(int(operation), divisor, rotated, 0, tensor.numel()))

    def reduce_parts(self, parts: Sequence[Tensor], divisor: float = 1.0, *, rotated: bool = False, kept: Tensor | None = None) -> None:
        """Replace `parts` (each flat) by their sums over all ranks, divided by `divisor`; no two may lie in the same memory.

        In order they are one vector, which is summed as `reduce` does. With `kept` (as many elements) they are as they were after a sum
        that is given up.
        """
        done, start, whole = 0, 0, sum(map(Tensor.numel, parts))
        try:
            for run in [list(parts)] if parts and sum(map(_NBYTES, parts)) <= CHUNK else _runs(parts):
                end = start + sum(map(Tensor.numel, run))
                how = ReduceSpec(int(Operation.SUM), divisor, rotated, start, whole, None if kept is None else kept[start:end])
                self._reduce_run(run, how)
                done, start = done + len(run), end
        except ConnectionAbortedError:
            if kept is not None:
                for part, before in zip(parts[:done], torch.split(kept[:start], list(map(Tensor.numel, parts[:done]))), strict=True):
                    part.copy_(before)
            raise
        torch.autograd.graph.increment_version(list(parts))

    def _reduce_run(self, run: Sequence[Tensor], how: ReduceSpec) -> None:
        """Sum neighbours at once; those that are given up are as they were if they are kept."""
        if len(run) == 1:
            self._reduce(run[0], run[0], how)
            return
        flat = torch.cat(list(run)) if how.kept is None else torch.cat(list(run), out=how.kept)
        total = flat if how.kept is None else torch.empty_like(flat)
        self._reduce(flat, total, replace(how, kept=None))
        for part, summed in zip(run, torch.split(total, list(map(Tensor.numel, run))), strict=True):
            part.copy_(summed)

    def reduce_scatter(self, tensor: Tensor, into: Tensor, operation: Operation = Operation.SUM, divisor: float = 1.0) -> None:
        """Part `rank` of the sum into `into`; `tensor` has P parts of its size."""
        if not into.numel():
            return
        if tensor.dtype in ADDS:
            self._engine.reduce_scatter(tensor, into, ReduceSpec(int(operation), divisor))
        else:
            received = torch.empty_like(tensor)
            self._engine.exchange(tensor, received)
            into.copy_(self._added(received.view(self.ranks, -1), operation, divisor).view(into.shape))

    def gather(self, tensor: Tensor, into: Tensor) -> None:
        """Everyone's `tensor`, in rank order, into `into` (P times its size)."""
        if tensor.numel():
            self._engine.gather(tensor, into)

    def exchange(self, tensor: Tensor, into: Tensor) -> None:
        """Part k of `tensor` goes to rank k, and what rank k has for me comes to part k of `into`; P equal parts each."""
        if tensor.numel():
            self._engine.exchange(tensor, into)

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """The `tensor` of rank `root` in the place of everyone's."""
        if tensor.numel():
            self._engine.broadcast(tensor, root)

    def barrier(self) -> None:
        """Return when all have come."""
        self._engine.barrier()

    @property
    def moved(self) -> int:
        """A number that changes whenever any rank gets on in a collective; from any thread."""
        return int(self._counts.sum())

    def lose(self, rank: int) -> None:
        """Wait for `rank` no longer, from any thread: a wait for it ends with an error if its contribution has not come."""
        self._engine.lose(rank)

    def _reduce(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        if not tensor.numel():
            return
        if tensor.dtype in ADDS:
            self._engine.reduce(tensor, into, how)
        else:
            if how.kept is not None:
                how.kept.copy_(tensor)
            into.copy_(self._added(self._all(tensor), Operation(how.operation), how.divisor).view(into.shape))

    def _all(self, tensor: Tensor) -> Tensor:
        gathered = torch.empty((self.ranks, tensor.numel()), dtype=tensor.dtype)
        self._engine.gather(tensor, gathered)
        return gathered

    def _added(self, values: Tensor, operation: Operation, divisor: float) -> Tensor:
        """The sum of the rows of `values` in the order of ranks, rounded after each, as one after another would."""
        total = values[0]
        for other in values[1:]:
            total = OPERATIONS[operation](total, other)
        return total / divisor if divisor != 1 else total


def _runs(parts: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """`parts` in order, small neighbours together: one round of waiting is then enough for all of them."""
    run: list[Tensor] = []
    nbytes = 0
    for part in parts:
        if run and nbytes + part.nbytes > CHUNK:
            yield run
            run, nbytes = [], 0
        run.append(part)
        nbytes += part.nbytes
    if run:
        yield run
