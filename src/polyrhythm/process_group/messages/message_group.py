"""A process group whose members exchange messages, as actors of a runtime: in virtual time, and between hosts."""

# mypy: disable-error-code="override"
# torch's stubs give these methods several signatures each, of which torch itself uses one

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import AllreduceOptions, Store

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.torch_private import name_only_backend
from polyrhythm.errors import CompositionError
from polyrhythm.process_group import check
from polyrhythm.process_group.collectives import flattened
from polyrhythm.process_group.messages.algorithms import Party
from polyrhythm.process_group.messages.calls import Call, line_of_caller
from polyrhythm.process_group.messages.collectives import Doing, MessageCollectives
from polyrhythm.process_group.messages.matching import Matching, ReceiveWork
from polyrhythm.process_group.messages.message_work import MessageWork, waited
from polyrhythm.process_group.messages.roll_call import roll_call
from polyrhythm.process_group.python_group import Collectives, IssueOptions, PythonGroup
from polyrhythm.process_group.work_queue import shown


class MessageGroup(PythonGroup[Doing]):
    """The member of rank `rank` of `members`, the ranks of the whole job; `name` is the group's in torch.

    Collectives of a group are done one after another, in the order in which they were issued, while the program computes; sends and
    receives besides. `within` are the seconds after which a wait fails.
    """

    def __init__(self, store: Store, context: WorkerContext, name: str, members: Sequence[int], rank: int, within: timedelta) -> None:
        PythonGroup.__init__(self, store, rank, len(members))
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, name_only_backend(rank, len(members)))
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._context = context
        self._name = name
        self._members = tuple(worker(each) for each in members)
        self._within = within
        self._issued = 0
        self._last = _open()
        self._topic = f"pg/{name}"
        self._matching: Matching | None = None

    def getBackendName(self) -> str:  # noqa: N802
        """Never "gloo", whose C++ class torch would expect."""
        return "polyrhythm"

    def send(self, tensors: list[Tensor], to: int, tag: int = 0) -> dist.Work:
        """Send a tensor to a member; done when it has left."""
        check.dense(*tensors)
        check.root(to, self.size())
        port, name, topic = self._context.port, self._members[to], f"{self._topic}/to"
        message = Message(topic, (self.rank(), tag), shown(tensors), tuple(flattened(tensor).view(-1).clone() for tensor in tensors))

        async def deliver() -> None:
            await port.send(name, message)
            await port.flush(name)

        return self._begin(MessageWork(self._context, self._call(f"send to {to} of {shown(tensors)}"), tensors), deliver())

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> dist.Work:
        """Receive a tensor of a member into the given one."""
        check.root(source, self.size())
        return self._receive(tensors, source, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> dist.Work:
        """Receive the next tensor that any member sends."""
        return self._receive(tensors, None, tag)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Return when all have come. Raises RunError at rank 0, which names those who have not within `timeout`."""
        seconds = (timeout or self._within).total_seconds()
        call = self._call("monitored_barrier")
        self._context.perform(roll_call(self._party(call), seconds, wait_all_ranks))

    def shutdown(self) -> None:
        """Wait for what was issued."""
        if not self._last.is_open:
            self._context.perform(waited(self._context.port, self._last))

    def abort(self) -> None:
        """Nothing is left to give back."""

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are numbered here."""

    def _get_sequence_number_for_group(self) -> int:
        return self._issued

    def _receive(self, tensors: list[Tensor], source: int | None, tag: int) -> dist.Work:
        check.dense(*tensors)
        if self._matching is None:
            self._matching = Matching(self._context.port, f"{self._topic}/to")
            self._context.perform(_spawned(self._context.port, self._matching.listen()))
        whom = "anyone" if source is None else source
        work = ReceiveWork(self._context, self._call(f"receive from {whom} of {shown(tensors)}"), tensors)
        return self._begin(work, self._matching.take(source, tag, work))

    def _issue(self, name: str, do: Callable[[Collectives[Doing]], Doing], outputs: Any, opts: IssueOptions) -> dist.Work:
        self._issued += 1
        described = f"{name} of {shown(outputs)}" if shown(outputs) else name
        call = self._call(described)
        work = MessageWork(self._context, call, outputs)
        before, self._last = self._last, work.done
        doing = do(MessageCollectives(self._party(call)))

        async def in_turn() -> None:
            await self._context.port.wait(before)
            await doing

        self._begin(work, in_turn())
        if not opts.asyncOp:
            work.wait()
        return work

    def _sum_sparse(self, tensors: list[Tensor], opts: AllreduceOptions) -> dist.Work:
        raise CompositionError("all_reduce was given a sparse tensor, which groups of several hosts do not sum: give tensor.to_dense().")

    def _begin(self, work: MessageWork, doing: Doing) -> MessageWork:
        """Start it after what was computed so far; the program continues."""
        self._context.perform(_spawned(self._context.port, work.carry(doing)))
        return work

    def _call(self, what: str) -> Call:
        return Call(what, f"group {self._name!r}", self._issued, line_of_caller())

    def _party(self, call: Call) -> Party:
        return Party(self._context.port, self._members, self.rank(), f"{self._topic}/{self._issued}", call)


async def _spawned(port: Port, doing: Doing) -> None:
    await port.spawn("collective", doing)


def _open() -> Latch:
    latch = Latch()
    latch.open()
    return latch
