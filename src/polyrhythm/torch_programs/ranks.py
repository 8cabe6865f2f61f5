"""The rank that the calling thread is, of a program of torch.distributed in virtual time. What is put in torch's place asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.seat import seated
from polyrhythm.errors import CompositionError
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.torch_programs.group_context import GroupContext
from polyrhythm.torch_programs.meeting import SharedByRanks


@dataclass(slots=True, eq=False)
class Rank:
    """Rank `rank` of `size`, the program of `context`; `shared` is what all ranks of the run share. `world` is torch's own state of it,
    `steps` counts those of its optimizers, and it issues collectives at its `desk`."""

    rank: int
    size: int
    context: WorkerContext
    shared: SharedByRanks
    seed: int
    world: Any
    steps: Any
    desk: Desk
    leaving: list[Callable[[], object]] = field(default_factory=list)
    """Called at the end of the program, the last first."""

    def joined(self, group: Any) -> tuple[WorkerContext, tuple[Location, ...]]:
        """The context of this rank as a worker among those of `group`, as `kernel.seat` asks for it."""
        ranks = list(range(self.size)) if group is None else dist.get_process_group_ranks(group)
        if self.rank not in ranks:
            raise CompositionError(f"Rank {self.rank} is not in the group that was given, of ranks {ranks}: join with a group of its own.")
        scope = f"join/{'-'.join(map(str, ranks))}/{self.shared.joins(self.rank, tuple(ranks))}/"
        context = GroupContext(self.context, [worker(each) for each in ranks], scope, self.shared.rounds(scope), self.seed)
        return context, tuple(self.shared.locations[each] for each in ranks)

    def leaves(self, leave: Callable[[], object]) -> None:
        """Have `leave` called at the end of the program."""
        self.leaving.append(leave)


_here = threading.local()


def current() -> Rank | None:
    """The rank that this thread is; None in other threads."""
    return getattr(_here, "rank", None)


@contextmanager
def being(rank: Rank) -> Iterator[None]:
    """Let this thread be `rank`."""
    _here.rank = rank
    try:
        with seated(rank):
            yield
    finally:
        _here.rank = None
