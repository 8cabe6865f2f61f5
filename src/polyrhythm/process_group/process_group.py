"""A process group of torch.distributed in real processes: its members share memory, or exchange messages between hosts."""

# mypy: disable-error-code="override"
# torch's stubs give these methods several signatures each, of which torch itself uses one

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from polyrhythm.core.torch_private.distributed import name_only_backend
from polyrhythm.core.torch_private.one_process import backward_pass
from polyrhythm.errors import CompositionError
from polyrhythm.process_group import check, python_group
from polyrhythm.process_group.engine import Engine
from polyrhythm.process_group.python_group import Issue, IssueOptions, PythonGroup
from polyrhythm.process_group.roll_call import RollCalls
from polyrhythm.process_group.work_queue import CollectiveCall, WorkQueue


class PolyrhythmGroup(PythonGroup[None]):
    """Rank `rank` of `size`; what `engine` does, and `seconds` are the time for a wait where a call gives none.

    Collectives that the caller waits for are done in its own thread where nothing is before them; the others in one thread of the
    group, in the order in which they were issued. A rank that ends, or that does not come within the timeout, makes the waiting
    ones raise RunError, and the group is of no use then.
    """

    def __init__(self, store: Store, rank: int, size: int, engine: Engine, seconds: float) -> None:
        PythonGroup.__init__(self, store, rank, size)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, name_only_backend(rank, size))
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._engine = engine
        self._seconds = seconds
        self._issued = 0
        self._queue = WorkQueue(engine)
        self._roll_calls = RollCalls(rank, size, engine.send, engine.receive)

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend in torch."""
        return "polyrhythm"

    def send(self, tensors: list[Tensor], to: int, tag: int = 0) -> dist.Work:
        """Send a tensor to a member; it must not change before the work is done."""
        return self._engine.send(self._alone(tensors, to), to, tag)

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> dist.Work:
        """Receive a tensor of a member into the given one."""
        return self._engine.receive(self._alone(tensors, source), source, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> dist.Work:
        """Receive the next tensor that any member sends."""
        return self._engine.receive(self._alone(tensors, 0), None, tag)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Return when all have come. Raises RunError at rank 0, which names those who have not within `timeout`."""
        self._roll_calls.hold(self._seconds if timeout is None else timeout.total_seconds(), wait_all_ranks)

    def shutdown(self) -> None:
        """Finish what was issued and give back what was needed for it."""
        self._queue.close()
        self._engine.close()

    def abort(self) -> None:
        """Stop waiting for the others."""
        self._engine.abort()
        self.shutdown()

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are numbered here."""

    def _get_sequence_number_for_group(self) -> int:
        return self._issued

    def _alone(self, tensors: Sequence[Tensor], peer: int) -> Tensor:
        check.dense(*tensors)
        check.root(peer, self.size())
        if len(tensors) != 1:
            raise CompositionError(f"A send or receive was given {len(tensors)} tensors: give one.")
        return tensors[0]

    def _issue(self, issue: Issue[None], opts: IssueOptions) -> dist.Work:
        self._issued += 1
        seconds = opts.timeout.total_seconds()
        call = CollectiveCall(
            lambda: issue.do(self._engine.collectives), issue.name, issue.outputs, seconds if seconds > 0 else self._seconds
        )
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
