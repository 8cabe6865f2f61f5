"""The side of a process group that torch.distributed calls, for groups that are written in Python.

torch calls a group in two ways: Python code calls these methods, and C++ code (DistributedDataParallel's reducer, the functional
collectives) finds those that torch lets a Python class replace. Both ways lead all ranks to the same choice. The collectives refuse what
is not a dense tensor on the CPU.
"""

# mypy: disable-error-code="override, assignment"
# torch's stubs give these methods several signatures each, of which torch itself uses one

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

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
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)  # fmt: skip

from polyrhythm.process_group import check
from polyrhythm.process_group.operations import Reduction, reduction
from polyrhythm.process_group.work_queue import shown

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class IssueOptions(Protocol):
    """What torch gives with each call."""

    timeout: timedelta
    asyncOp: bool  # noqa: N815


class Collectives(Protocol[R_co]):
    """The collectives of a group, each made by one method; R is None where it is done on return, else a coroutine that does it."""

    def reduce_all(self, tensors: Sequence[Tensor], how: Reduction) -> R_co:
        """Each of `tensors` becomes its reduction over the ranks."""

    def sum_sparse(self, tensors: Sequence[Tensor]) -> R_co:
        """Each of the sparse `tensors` becomes its sum over the ranks."""

    def reduce_to(self, tensors: Sequence[Tensor], how: Reduction, root: int) -> R_co:
        """Reduce `tensors` at rank `root` only; the other ranks keep theirs."""

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> R_co:
        """Each of `tensors` becomes what it is at rank `root`."""

    def gather_flat(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> R_co:
        """For each pair (output, input): everyone's input, one after another in rank order, into the output."""

    def gather_lists(self, lists: Sequence[Sequence[Tensor]], owns: Sequence[Tensor]) -> R_co:
        """For each list of P outputs and its input: rank r's input into output r. Inputs may differ in size between ranks."""

    def gather_to(self, outputs: Sequence[Tensor], own: Tensor, root: int) -> R_co:
        """Rank r's `own` into output r of the root."""

    def scatter(self, output: Tensor, pieces: Sequence[Tensor], root: int) -> R_co:
        """Piece r of rank `root`, the one that has any, into rank r's `output`."""

    def scatter_reduced(self, pairs: Sequence[tuple[Tensor, Tensor]], how: Reduction) -> R_co:
        """For each pair (output, input of P times its size): part `rank` of the reduced input into the output."""

    def scatter_reduced_list(self, output: Tensor, owns: Sequence[Tensor], how: Reduction) -> R_co:
        """Input `rank` of P, reduced, into `output`. Inputs may differ in size."""

    def exchange_lists(self, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> R_co:
        """Tensor k of `owns` to rank k, and what rank k has for this one into output k; all may differ in size."""

    def exchange_rows(self, whole: tuple[Tensor, Tensor], outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> R_co:
        """The same for parts of one output and one input, `whole`."""

    def barrier(self) -> R_co:
        """Done when all have come."""


@dataclass(frozen=True, slots=True)
class Issue(Generic[R]):
    """A collective that a rank issues: its usual name, how it is done, what it writes to, and what all ranks must give alike."""

    name: str
    do: Callable[[Collectives[R]], R]
    outputs: Any
    alike: Sequence[Any]

    @property
    def kind(self) -> str:
        """The name, and what must be alike but tensors: "all_reduce SUM"."""
        return " ".join([self.name, *(_shown(part) for part in self.alike if isinstance(part, int | Reduction))])

    @property
    def of(self) -> str:
        """The tensors, or the type of their elements: "float32 [16]"."""
        return " ".join(_shown(part) for part in self.alike if not isinstance(part, int | Reduction))


def _shown(part: Any) -> str:
    if isinstance(part, torch.dtype):
        return str(part).removeprefix("torch.")
    return f"root {part}" if isinstance(part, int) else str(part) if isinstance(part, Reduction) else shown(part)


class PythonGroup(dist.ProcessGroup, Generic[R]):
    """Rank `rank` of `size` members; a class of groups says in `_issue` how a collective is done."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        dist.ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]  # this is the one for subclasses
        self._store = store

    def get_group_store(self) -> Store:
        """The store of the members' rendezvous."""
        return self._store

    def _issue(self, issue: Issue[R], opts: IssueOptions) -> dist.Work:
        """Have it done with the collectives of the group, in turn."""
        raise NotImplementedError

    def allreduce(self, tensors: list[Tensor] | Tensor, opts: AllreduceOptions | None = None) -> dist.Work:
        """Reduce `tensors` over all ranks, in place."""
        tensors = check.unwrapped([tensors] if isinstance(tensors, Tensor) else tensors)
        opts = opts or AllreduceOptions()
        if check.sparse(tensors):
            check.summable_sparse(tensors, reduction(opts.reduceOp))
            return self._issue(Issue("all_reduce", lambda made: made.sum_sparse(tensors), tensors, (tensors[0].dtype,)), opts)
        check.dense(*tensors)
        how = reduction(opts.reduceOp)
        check.reducible(tensors, how)
        return self._issue(Issue("all_reduce", lambda made: made.reduce_all(tensors, how), tensors, (how, tensors)), opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: AllreduceCoalescedOptions) -> dist.Work:
        """Reduce several tensors over all ranks, in place."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: ReduceOptions) -> dist.Work:
        """Reduce in place at the root; the other ranks keep their tensors."""
        how, root = reduction(opts.reduceOp), opts.rootRank
        check.dense(*tensors)
        check.reducible(tensors, how)
        check.root(root, self.size())
        return self._issue(Issue("reduce", lambda made: made.reduce_to(tensors, how, root), tensors, (how, root, tensors)), opts)

    def broadcast(self, tensors: list[Tensor], opts: BroadcastOptions) -> dist.Work:
        """Copy the root's tensors to all ranks, in place."""
        root, tensors = opts.rootRank, check.unwrapped(tensors)
        check.dense(*tensors)
        check.root(root, self.size())
        return self._issue(Issue("broadcast", lambda made: made.broadcast(tensors, root), tensors, (root, tensors)), opts)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather everyone's input into the list of outputs; sizes may differ between ranks."""
        for each, own in zip(outputs, inputs, strict=True):
            check.dense(own, *each)
            check.one_for_each(each, own, self.size())
        given = outputs[0] if len(outputs) == 1 else outputs  # as gloo's futures
        return self._issue(Issue("all_gather", lambda made: made.gather_lists(outputs, inputs), given, (outputs,)), opts)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather several inputs, into outputs given rank by rank."""
        return self.allgather([list(each) for each in zip(*outputs, strict=True)], inputs, opts)

    def all_gather_single(self, output: Tensor, own: Tensor, opts: AllgatherOptions) -> dist.Work:
        """Gather everyone's input, one after another, into one tensor."""
        return self._gather_flat([output], [own], opts)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        """Gather several inputs, each into one tensor."""
        return self._gather_flat(outputs, inputs, opts)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: GatherOptions) -> dist.Work:
        """Gather everyone's input into the list of outputs of the root."""
        check.root(opts.rootRank, self.size())
        check.dense(*inputs, *(tensor for each in outputs for tensor in each))
        room = outputs[0] if opts.rootRank == self.rank() else []
        if opts.rootRank == self.rank():
            check.one_for_each(room, inputs[0], self.size())
            check.equal(room, inputs[0])
        return self._issue(
            Issue("gather", lambda made: made.gather_to(room, inputs[0], opts.rootRank), room, (opts.rootRank, inputs)), opts
        )

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: ScatterOptions) -> dist.Work:
        """Piece r of the root's list into rank r's output."""
        root = opts.rootRank
        check.root(root, self.size())
        check.dense(*outputs, *(tensor for each in inputs for tensor in each))
        pieces = inputs[0] if root == self.rank() else []
        if root == self.rank():
            check.one_for_each(pieces, outputs[0], self.size())
            check.equal(pieces, outputs[0])
        return self._issue(Issue("scatter", lambda made: made.scatter(outputs[0], pieces, root), outputs, (root, outputs)), opts)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: ReduceScatterOptions) -> dist.Work:
        """The reduction of everyone's piece `rank` into the output; pieces may differ in size."""
        how = reduction(opts.reduceOp)
        check.dense(*outputs, *inputs[0])
        check.reducible(outputs, how)
        check.one_for_each(inputs[0], outputs[0], self.size())
        return self._issue(
            Issue("reduce_scatter", lambda made: made.scatter_reduced_list(outputs[0], inputs[0], how), outputs, (how, inputs[0])), opts
        )

    def reduce_scatter_single(self, output: Tensor, own: Tensor, opts: ReduceScatterOptions) -> dist.Work:
        """Part `rank` of the reduction into the output."""
        return self._scatter_reduced([output], [own], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: ReduceScatterOptions) -> dist.Work:
        """Reduce and scatter several inputs, each into its output."""
        return self._scatter_reduced(outputs, inputs, opts)

    def all_to_all_single(
        self, output: Tensor, own: Tensor, output_splits: list[int], input_splits: list[int], opts: AllToAllOptions
    ) -> dist.Work:
        """Part k of the input to rank k; parts are rows of the first dimension, of the sizes `splits`, or equal."""
        check.dense(output, own)
        if not output_splits and not input_splits:
            check.parts(own, output, 1)
        check.one_for_each([output], own, 1)
        received, sent = check.rows(output, output_splits, self.size()), check.rows(own, input_splits, self.size())
        return self._issue(
            Issue("all_to_all", lambda made: made.exchange_rows((output, own), received, sent), [output], (own.dtype,)), opts
        )

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: AllToAllOptions) -> dist.Work:
        """Tensor k to rank k; sizes may differ."""
        check.dense(*outputs, *inputs)
        check.one_for_each(outputs, inputs[0], self.size())
        check.one_for_each(inputs, inputs[0], self.size())
        return self._issue(Issue("all_to_all", lambda made: made.exchange_lists(outputs, inputs), outputs, (inputs[0].dtype,)), opts)

    def barrier(self, opts: BarrierOptions | None = None) -> dist.Work:
        """Return when all have come."""
        return self._issue(Issue("barrier", lambda made: made.barrier(), [], ()), opts or BarrierOptions())

    # C++ and older Python code know these names
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _gather_flat(self, outputs: list[Tensor], inputs: list[Tensor], opts: AllgatherOptions) -> dist.Work:
        pairs = list(zip(check.unwrapped(outputs), check.unwrapped(inputs), strict=True))
        for output, own in pairs:
            check.dense(output, own)
            check.parts(output, own, self.size())
        return self._issue(Issue("all_gather", lambda made: made.gather_flat(pairs), outputs, (outputs,)), opts)

    def _scatter_reduced(self, outputs: list[Tensor], inputs: list[Tensor], opts: ReduceScatterOptions) -> dist.Work:
        how, pairs = reduction(opts.reduceOp), list(zip(check.unwrapped(outputs), check.unwrapped(inputs), strict=True))
        for output, own in pairs:
            check.dense(output, own)
            check.parts(own, output, self.size())
            how.check(own)
        return self._issue(Issue("reduce_scatter", lambda made: made.scatter_reduced(pairs, how), outputs, (how, outputs)), opts)
