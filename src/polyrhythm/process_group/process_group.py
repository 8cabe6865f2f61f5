"""A process group of torch.distributed whose members share memory.

What is not here (send and receive), and sums of sparse tensors, go to the gloo group within.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import AllreduceOptions, ProcessGroupGloo, Store

from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.core.torch_private import backward_pass, timeout_of
from polyrhythm.process_group import python_group
from polyrhythm.process_group.collectives import MemoryCollectives
from polyrhythm.process_group.python_group import Issue, IssueOptions, PythonGroup
from polyrhythm.process_group.rendezvous import SharedMembership
from polyrhythm.process_group.watchdog import Watchdog
from polyrhythm.process_group.work_queue import CollectiveCall, WorkQueue


class PolyrhythmGroup(PythonGroup[None]):
    """Rank `shared.rank` of those who share `shared.segment`; `names` are their ranks in the whole job, for messages.

    Collectives that the caller waits for are done in its own thread where nothing is before them; the others in one thread of the
    group, in the order in which they were issued. A rank that ends, or that does not come within the timeout, makes the waiting
    ones raise RunError, and the group is of no use then.
    """

    def __init__(self, store: Store, shared: SharedMembership, gloo: ProcessGroupGloo, names: Sequence[int]) -> None:
        assert shared.segment is not None
        PythonGroup.__init__(self, store, shared.rank, shared.segment.ranks)
        self._gloo: Any = gloo
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._memory = MemoryGroup(shared.segment, shared.rank)
        self._collectives = MemoryCollectives(self._memory)
        self._watch = Watchdog(self._memory, shared, names)
        self._queue = WorkQueue(self._watch)

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend in torch."""
        return "polyrhythm"

    def _sum_sparse(self, tensors: list[Tensor], opts: AllreduceOptions) -> dist.Work:
        return self._gloo.allreduce(tensors, opts)  # type: ignore[no-any-return]

    def shutdown(self) -> None:
        """Finish what was issued and let go of the memory."""
        self._queue.close()
        self._watch.close()

    def abort(self) -> None:
        """Stop waiting for the others."""
        for rank in range(self.size()):
            self._memory.lose(rank)
        self.shutdown()

    def _issue(self, issue: Issue[None], opts: IssueOptions) -> dist.Work:
        seconds = opts.timeout.total_seconds()
        if seconds <= 0:  # not given
            seconds = timeout_of(self._gloo)
        call = CollectiveCall(lambda: issue.do(self._collectives), issue.name, issue.outputs, seconds)
        return self._queue.later(call) if opts.asyncOp and not _called_by_a_hook() else self._queue.now(call)


_METHODS = (__name__, python_group.__name__)
"""The modules in which the methods are that torch calls."""


def _called_by_a_hook() -> bool:
    """True if Python code within a backward pass calls, through the functions of torch.distributed.

    That is a communication hook of DistributedDataParallel. It may chain further collectives to the future, as PowerSGD does; these
    must come in the same order at all ranks, whichever is faster. So it finds the future done, and continues in the caller's thread.
    """
    return backward_pass() >= 0 and _caller_module() == dist.distributed_c10d.__name__


def _caller_module() -> str:
    """The module whose Python code called a method of the group; "" where C++ did, in a separate thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") in _METHODS:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__"))
