"""A process group whose members exchange messages, as actors of a runtime: in virtual time, and between hosts."""

# mypy: disable-error-code="override"
# torch's stubs give these methods several signatures each, of which torch itself uses one

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store, default_pg_timeout

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.torch_private.distributed import name_only_backend
from polyrhythm.process_group import check
from polyrhythm.process_group.collectives import flattened
from polyrhythm.process_group.messages.algorithms import OWN, Algorithms
from polyrhythm.process_group.messages.calls import IssuedCall, line_of_caller
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.process_group.messages.message_work import MessageWork, ReceiveWork
from polyrhythm.process_group.messages.party import BytesSent, Doing, Party
from polyrhythm.process_group.messages.roll_call import roll_call
from polyrhythm.process_group.messages.turns import Turns
from polyrhythm.process_group.python_group import Issue, IssueOptions, PythonGroup
from polyrhythm.process_group.work_queue import shown


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """That of rank `rank` of `members`, which are ranks of the whole job; `name` is the group's in torch, `axis` its mesh axis."""

    name: str
    axis: str
    members: Sequence[int]
    rank: int


class MessageGroup(PythonGroup[Doing]):
    """A group as one member, that of `membership`, has it.

    Collectives of a group begin in the order in which they were issued, as many at once as its backend has under way, while the program
    computes; sends and receives besides. A wait fails after `within`, unless that is torch's default: then ranks that all wait are a
    deadlock, named at once.
    """

    def __init__(self, store: Store, desk: Desk, membership: GroupMembership, within: timedelta, algorithms: Algorithms = OWN) -> None:
        members, rank = membership.members, membership.rank
        PythonGroup.__init__(self, store, rank, len(members))
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, name_only_backend(rank, len(members)))
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._desk = desk
        self._port = desk.port
        self._name, self._axis = membership.name, membership.axis
        self._members = tuple(worker(each) for each in members)
        self._within = within
        self._limit = None if within == default_pg_timeout else within.total_seconds()
        self._issued = self._roll_calls = 0
        self._topic = f"pg/{self._name}"
        self._algorithms = algorithms
        self._turns = Turns(algorithms.at_once)
        self._peers = algorithms.peers(self._port, f"{self._topic}/to", self._members, self._limit)
        self._listens = False

    def getBackendName(self) -> str:  # noqa: N802
        """Never "gloo", whose C++ class torch would expect."""
        return "polyrhythm"

    def send(self, tensors: list[Tensor], to: int, tag: int = 0) -> dist.Work:
        """Send a tensor to a member; done when it may be written to again."""
        check.dense(*tensors)
        check.root(to, self.size())
        values = tuple(flattened(tensor).view(-1).clone() for tensor in tensors)
        message = Message(f"{self._topic}/to", (self.rank(), tag), shown(tensors), values)
        work = MessageWork(self._desk, self._alone(f"send to {to}", shown(tensors)), tensors)
        return self._begin(work, self._peers.deliver(self._members[to], message, work))

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> dist.Work:
        """Receive a tensor of a member into the given one."""
        check.root(source, self.size())
        return self._receive(tensors, source, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> dist.Work:
        """Receive the next tensor that any member sends."""
        return self._receive(tensors, None, tag)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Return when all have come. Raises RunError at rank 0, which names those who have not within `timeout`."""
        seconds = (self._within if timeout is None else timeout).total_seconds()
        call = self._call("monitored_barrier")
        self._roll_calls += 1  # who came too late to one is not in the next
        party = replace(self._party(call, BytesSent()), topic=f"{self._topic}/roll call {self._roll_calls}")
        self._desk.perform(roll_call(party, seconds, wait_all_ranks), call)

    def shutdown(self) -> None:
        """Wait for what was issued."""
        for done in list(self._turns.unfinished()):
            self._desk.wait(done, self._call("shutdown"))

    def abort(self) -> None:
        """Nothing is left to give back."""

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are numbered here."""

    def _get_sequence_number_for_group(self) -> int:
        return self._issued

    def _receive(self, tensors: list[Tensor], source: int | None, tag: int) -> dist.Work:
        check.dense(*tensors)
        if not self._listens:
            self._listens = True
            self._desk.begin(self._peers.listen())
        whom = "anyone" if source is None else source
        work = ReceiveWork(self._desk, self._alone(f"receive from {whom}", shown(tensors)), tensors)
        return self._begin(work, self._peers.take(source, tag, work))

    def _issue(self, issue: Issue[Doing], opts: IssueOptions) -> dist.Work:
        self._issued += 1
        call = self._call(issue.kind, issue.of)
        self._desk.issue(call)
        work = MessageWork(self._desk, call, issue.outputs)
        turn = self._turns.join(work.done)
        made = self._desk.collectives(self._party(call, work.tally), self._algorithms)

        async def in_turn() -> None:
            await self._port.wait(turn)
            try:
                await issue.do(made)
            finally:
                self._turns.leave()

        self._begin(work, in_turn)
        if not opts.asyncOp:
            work.wait()
        return work

    def _begin(self, work: MessageWork, do: Callable[[], Doing]) -> MessageWork:
        """Start it after what was computed so far; the program continues."""
        self._desk.begin(work.carry(do))
        return work

    def _call(self, kind: str, of: str = "") -> IssuedCall:
        return IssuedCall(kind, of, self._name, self._members, self._issued, line_of_caller(), self._axis)

    def _alone(self, kind: str, of: str) -> IssuedCall:
        return replace(self._call(kind, of), collective=False)

    def _party(self, call: IssuedCall, tally: BytesSent) -> Party:
        return Party(self._port, self._members, self.rank(), f"{self._topic}/{self._issued}", call, tally, self._limit)
