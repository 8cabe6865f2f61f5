"""The rank that the calling thread is, of a program of torch.distributed in virtual time. What is put in torch's place asks for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.torch_programs.meeting import SharedByRanks


@dataclass(slots=True, eq=False)
class Rank:
    """Rank `rank` of `size`, the program of `context`; `meeting` is what all ranks of the run share. `world` is torch's own state of it,
    `steps` counts those of its optimizers, and it issues collectives at its `desk`."""

    rank: int
    size: int
    context: WorkerContext
    meeting: SharedByRanks
    world: Any
    steps: Any
    desk: Desk


_here = threading.local()


def current() -> Rank | None:
    """The rank that this thread is; None in other threads."""
    return getattr(_here, "rank", None)


@contextmanager
def being(rank: Rank) -> Iterator[None]:
    """Let this thread be `rank`."""
    _here.rank = rank
    try:
        yield
    finally:
        _here.rank = None
