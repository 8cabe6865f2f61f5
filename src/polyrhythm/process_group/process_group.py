"""A process group of torch.distributed whose members share memory.

torch calls a group in two ways: Python code calls these methods, and C++ code (DistributedDataParallel's reducer, the functional
collectives) finds those that torch lets a Python class replace. What is not here (send and receive), and sums of
sparse tensors, go to the gloo group within. The other collectives refuse what is not a dense tensor on the CPU. Both ways lead all
ranks to the same choice.
"""

# mypy: disable-error-code="override, assignment"
# torch's stubs give these methods several signatures each, of which torch itself uses one

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import (  # type: ignore[attr-defined]
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ProcessGroupGloo,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)  # fmt: skip

from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.core.torch_private import backward_pass, timeout_of
from polyrhythm.process_group import check
from polyrhythm.process_group.collectives import Collectives
from polyrhythm.process_group.operations import reduction
from polyrhythm.process_group.rendezvous import SharedMembership
from polyrhythm.process_group.watchdog import Watchdog
from polyrhythm.process_group.work_queue import CollectiveBody, CollectiveCall, WorkQueue


class _Options(Protocol):
    timeout: timedelta
    asyncOp: bool  # noqa: N815


class PolyrhythmGroup(dist.ProcessGroup):
    """Rank `shared.rank` of those who share `shared.segment`; `names` are their ranks in the whole job, for messages.

    Collectives that the caller waits for are done in its own thread where nothing is before them; the others in one thread of the
    group, in the order in which they were issued. A rank that ends, or that does not come within the timeout, makes the waiting
    ones raise RunError, and the group is of no use then.
    """

    def __init__(self, store: Store, shared: SharedMembership, gloo: ProcessGroupGloo, names: Sequence[int]) -> None:
        assert shared.segment is not None
        dist.ProcessGroup.__init__(self, shared.rank, shared.segment.ranks)  # type: ignore[call-arg]  # this is the one for subclasses
        self._store = store
        self._ranks = shared.segment.ranks
        self._gloo: Any = gloo
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._memory = MemoryGroup(shared.segment, shared.rank)
        self._collectives = Collectives(self._memory)
        self._watch = Watchdog(self._memory, shared, names)
        self._queue = WorkQueue(self._watch)

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend in torch."""
        return "polyrhythm"

    def get_group_store(self) -> Store:
        """The store of the members' rendezvous."""
        return self._store

    def allreduce(self, tensors: list[Tensor] | Tensor, opts: AllreduceOptions | None = None) -> dist.Work:
        """Reduce `tensors` over all ranks, in place."""
        tensors = [tensors] if isinstance(tensors, Tensor) else tensors
        opts = opts or AllreduceOptions()
        if check.sparse(tensors):
            return self._gloo.allreduce(tensors, opts)  # type: ignore[no-any-return]
        check.dense(*tensors)
        how = reduction(opts.reduceOp)
        check.reducible(tensors, how)
        return self._issue("all_reduce", lambda: self._collectives.reduce_all(tensors, how), tensors, opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: AllreduceCoalescedOptions) -> dist.Work:
        """Reduce several tensors over all ranks, in place."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: ReduceOptions) -> dist.Work:
        """Reduce in place at the root; the other ranks keep their tensors."""
        how, root = reduction(opts.reduceOp), opts.rootRank
        check.dense(*tensors)
        check.reducible(tensors, how)
        check.root(root, self._ranks)
        return self._issue("reduce", lambda: self._collectives.reduce_to(tensors, how, root), tensors, opts)

    def broadcast(self, tensors: list[Tensor], opts: BroadcastOptions) -> dist.Work:
        """Copy the root's tensors to all ranks, in place."""
        root = opts.rootRank
        check.dense(*tensors)
        check.root(root, self._ranks)
        return self._issue("broadcast", lambda: self._collectives.broadcast(tensors, root), tensors, opts)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather everyone's input into the list of outputs; sizes may differ between ranks."""
        for each, own in zip(outputs, inputs, strict=True):
            check.dense(own, *each)
            check.one_for_each(each, own, self._ranks)
        given = outputs[0] if len(outputs) == 1 else outputs  # as gloo's futures
        return self._issue("all_gather", lambda: self._collectives.gather_lists(outputs, inputs), given, opts)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather several inputs, into outputs given rank by rank."""
        return self.allgather([list(each) for each in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: Tensor, own: Tensor, opts: AllgatherOptions) -> dist.Work:
        """Gather everyone's input, one after another, into one tensor."""
        return self._gather_flat([(output, own)], [output], opts)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather several inputs, each into one tensor."""
        return self._gather_flat(list(zip(outputs, inputs, strict=True)), outputs, opts)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: GatherOptions) -> dist.Work:
        """Gather everyone's input into the list of outputs of the root."""
        check.root(opts.rootRank, self._ranks)
        check.dense(*inputs, *(tensor for each in outputs for tensor in each))
        room = outputs[0] if opts.rootRank == self._memory.rank else []
        if opts.rootRank == self._memory.rank:
            check.one_for_each(room, inputs[0], self._ranks)
            check.equal(room, inputs[0])
        return self._issue("gather", lambda: self._collectives.gather_to(room, inputs[0]), room, opts)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: ScatterOptions) -> dist.Work:
        """Piece r of the root's list into rank r's output."""
        root = opts.rootRank
        check.root(root, self._ranks)
        check.dense(*outputs, *(tensor for each in inputs for tensor in each))
        pieces = inputs[0] if root == self._memory.rank else []
        if root == self._memory.rank:
            check.one_for_each(pieces, outputs[0], self._ranks)
            check.equal(pieces, outputs[0])
        return self._issue("scatter", lambda: self._collectives.scatter(outputs[0], pieces, root), outputs, opts)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: ReduceScatterOptions) -> dist.Work:
        """The reduction of everyone's piece `rank` into the output; pieces may differ in size."""
        how = reduction(opts.reduceOp)
        check.dense(*outputs, *inputs[0])
        check.reducible(outputs, how)
        check.one_for_each(inputs[0], outputs[0], self._ranks)
        return self._issue("reduce_scatter", lambda: self._collectives.scatter_reduced_list(outputs[0], inputs[0], how), outputs, opts)

    def reduce_scatter_single(self, output: Tensor, own: Tensor, opts: ReduceScatterOptions) -> dist.Work:
        """Part `rank` of the reduction into the output."""
        return self._scatter_reduced([(output, own)], [output], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: ReduceScatterOptions) -> dist.Work:
        """Reduce and scatter several inputs, each into its output."""
        return self._scatter_reduced(list(zip(outputs, inputs, strict=True)), outputs, opts)

    def all_to_all_single(
        self, output: Tensor, own: Tensor, output_splits: list[int], input_splits: list[int], opts: AllToAllOptions
    ) -> dist.Work:
        """Part k of the input to rank k; parts are rows of the first dimension, of the sizes `splits`, or equal."""
        check.dense(output, own)
        if not output_splits and not input_splits:
            check.parts(own, output, 1)
        check.one_for_each([output], own, 1)
        received, sent = check.rows(output, output_splits, self._ranks), check.rows(own, input_splits, self._ranks)
        return self._issue("all_to_all", lambda: self._collectives.exchange_rows((output, own), received, sent), [output], opts)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: AllToAllOptions) -> dist.Work:
        """Tensor k to rank k; sizes may differ."""
        check.dense(*outputs, *inputs)
        check.one_for_each(outputs, inputs[0], self._ranks)
        check.one_for_each(inputs, inputs[0], self._ranks)
        return self._issue("all_to_all", lambda: self._collectives.exchange_lists(outputs, inputs), outputs, opts)

    def barrier(self, opts: BarrierOptions | None = None) -> dist.Work:
        """Return when all have come."""
        return self._issue("barrier", self._collectives.barrier, [], opts or BarrierOptions())

    def shutdown(self) -> None:
        """Finish what was issued and let go of the memory."""
        self._queue.close()
        self._watch.close()

    def abort(self) -> None:
        """Stop waiting for the others."""
        for rank in range(self._ranks):
            self._memory.lose(rank)
        self.shutdown()

    # C++ and older Python code know these names
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _gather_flat(self, pairs: list[tuple[Tensor, Tensor]], outputs: Any, opts: AllgatherOptions) -> dist.Work:
        for output, own in pairs:
            check.dense(output, own)
            check.parts(output, own, self._ranks)
        return self._issue("all_gather", lambda: self._collectives.gather_flat(pairs), outputs, opts)

    def _scatter_reduced(self, pairs: list[tuple[Tensor, Tensor]], outputs: Any, opts: ReduceScatterOptions) -> dist.Work:
        how = reduction(opts.reduceOp)
        for output, own in pairs:
            check.dense(output, own)
            check.parts(own, output, self._ranks)
            how.check(own)
        return self._issue("reduce_scatter", lambda: self._collectives.scatter_reduced(pairs, how), outputs, opts)

    def _issue(self, name: str, body: CollectiveBody, outputs: Any, opts: _Options) -> dist.Work:
        seconds = opts.timeout.total_seconds()
        if seconds <= 0:  # not given
            seconds = timeout_of(self._gloo)
        call = CollectiveCall(body, name, outputs, seconds)
        return self._queue.later(call) if opts.asyncOp and not _called_by_a_hook() else self._queue.now(call)


def _called_by_a_hook() -> bool:
    """True if Python code within a backward pass calls, through the functions of torch.distributed.

    That is a communication hook of DistributedDataParallel. It may chain further collectives to the future, as PowerSGD does; these
    must come in the same order at all ranks, whichever is faster. So it finds the future done, and continues in the caller's thread.
    """
    return backward_pass() >= 0 and _caller_module() == dist.distributed_c10d.__name__


def _caller_module() -> str:
    """The module whose Python code called a method of the group; "" where C++ did, in a separate thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__"))
