"""The rank that the calling thread is, of a program of torch.distributed in virtual time. What is put in torch's place asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch.distributed as dist

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.seat import seated
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.torch_programs.group_context import GroupContext, axis_of
from polyrhythm.torch_programs.meeting import Shared
from polyrhythm.torch_programs.memory import Memory


class VirtualClock(Protocol):
    """The clock of a thread whose time is virtual."""

    def time(self) -> float:
        """The virtual seconds of the run so far."""

    def sleep(self, seconds: float) -> None:
        """Let as many pass."""


@dataclass(slots=True, eq=False)
class Rank:
    """Rank `rank` of `size`, the program of `context`; `shared` is what all ranks of the run share. `world` is torch's own state of it,
    `steps` counts those of its optimizers, and it issues collectives at its `desk`."""

    rank: int
    size: int
    context: WorkerContext
    shared: Shared
    seed: int
    world: Any
    steps: Any
    desk: Desk
    memory: Memory | None = None
    """Counts its memory, where that is wanted."""
    leaving: list[Callable[[], object]] = field(default_factory=list)
    """Called at the end of the program, the last first."""
    handlers: dict[int, Any] = field(default_factory=dict)
    """What it has set for signals, which nobody sends to it."""
    at_exit: list[tuple[Callable[..., Any], Any, Any]] = field(default_factory=list)
    """The calls to be made when it ends."""

    def joined(self, group: Any) -> tuple[WorkerContext, tuple[Location, ...]]:
        """The context of this rank as a worker among those of `group`, as `kernel.seat` asks for it."""
        ranks = list(range(self.size)) if group is None else dist.get_process_group_ranks(group)
        if self.rank not in ranks:
            raise CompositionError(f"Rank {self.rank} is not in the group that was given, of ranks {ranks}: join with a group of its own.")
        scope = f"join/{'-'.join(map(str, ranks))}/{self.shared.joins(self.rank, tuple(ranks))}/"
        axis = "all ranks" if group is None else axis_of(group.group_desc)
        context = GroupContext(
            self.context, [worker(each) for each in ranks], scope, self.shared.rounds(scope), self.seed, self.steps, axis
        )
        self.steps.join()
        return context, tuple(self.shared.locations[each] for each in ranks)

    def usual(self) -> Strategy | None:
        """The strategy of a worker that names none, as `kernel.seat` asks for it."""
        self.shared.asked = True
        return self.shared.settings.strategy

    def left(self) -> None:
        """This rank is no worker any more."""
        self.steps.leave()

    def leaves(self, leave: Callable[[], object]) -> None:
        """Have `leave` called at the end of the program."""
        self.leaving.append(leave)

    def time(self) -> float:
        """The virtual seconds of the run so far."""
        return self.context.time()

    def sleep(self, seconds: float) -> None:
        """Let other ranks continue as long."""
        self.context.perform(_sleep(self.context.port, seconds))


_here = threading.local()


def current() -> Rank | None:
    """The rank that this thread is; None in other threads."""
    return getattr(_here, "rank", None)


def memory_here() -> Memory | None:
    """What counts the memory of this thread's rank, if that is wanted."""
    rank = current()
    return None if rank is None else rank.memory


def clock() -> VirtualClock | None:
    """That of this thread; None where it is the system's."""
    return getattr(_here, "clock", None)


@contextmanager
def being(rank: Any, its: VirtualClock | None = None) -> Iterator[Any]:
    """Let this thread be `rank`, or have a virtual clock without being one."""
    before = current(), clock()
    _here.rank, _here.clock = rank, its if rank is None else rank
    try:
        with nullcontext() if rank is None and its is None else seated(rank):
            yield rank
    finally:
        _here.rank, _here.clock = before


def forget() -> None:
    """This thread is no rank: it goes on in a process of its own."""
    _here.rank = _here.clock = None


async def _sleep(port: Port, seconds: float) -> None:
    await port.sleep(seconds)
