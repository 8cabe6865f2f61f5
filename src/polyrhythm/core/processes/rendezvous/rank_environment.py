"""The environment of a process started by another launcher: its rank, and where it meets the others of its run.

`polyrhythm.join` and the calibration over several hosts look for it; `Rendezvous` meets the others at its place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from polyrhythm.core.processes.rendezvous.found import Found
from polyrhythm.core.processes.rendezvous.launchers import LAUNCHERS, LauncherVariables, Variables
from polyrhythm.core.processes.rendezvous.places import MeetingPlace, RankZero
from polyrhythm.core.torch_private.distributed import default_store, store_of
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """Rank of `workers`, who meet at `place`."""

    rank: int
    workers: int
    place: MeetingPlace = field(default=RankZero())

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.workers:
            raise CompositionError(f"Rank {self.rank} is not one of {self.workers} workers: ranks go from 0 to {self.workers - 1}.")


def find_rank_environment(environment: Variables | None = None) -> RankEnvironment:
    """The environment that an initialised process group of torch.distributed, or the variables of a launcher, describe.

    Without any of these there is one worker. Raises CompositionError where a launcher is at work and does not say who this process is.
    """
    if environment is None and dist.is_available() and dist.is_initialized():
        return RankEnvironment(dist.get_rank(), dist.get_world_size(), Found(default_store))
    given = os.environ if environment is None else environment
    for launcher in LAUNCHERS:
        if launcher.describes(given):
            return RankEnvironment(*launcher.ranked(given), launcher.place(given))
    for launcher in LAUNCHERS:
        _refuse_half(launcher, given)
    return RankEnvironment(0, 1, RankZero(port=0))


def rank_in(group: Any) -> RankEnvironment:
    """The environment that a process group of torch.distributed describes. Raises CompositionError if this process is not in it."""
    if dist.get_rank(group) < 0:
        raise CompositionError("This process is not in the group that was given: join with a group that it is in.")
    return RankEnvironment(dist.get_rank(group), dist.get_world_size(group), Found(lambda: store_of(group)))


def launched_rank() -> int:
    """The rank that a launcher has given this process, wherever it is to meet the others. Raises CompositionError where there is none."""
    for launcher in LAUNCHERS:
        if launcher.describes(os.environ):
            return launcher.ranked(os.environ)[0]
    return find_rank_environment(os.environ).rank


def _refuse_half(launcher: LauncherVariables, given: Variables) -> None:
    """Raise where some variables of `launcher` are there and others are not: each process would train alone, and nobody would notice."""
    found = launcher.shows(given)
    if not found or any(given.get(name) == "1" for name in launcher.workers):
        return
    missing = [] if launcher.rank in given else [launcher.rank]
    if not any(name in given for name in launcher.workers):
        missing.append(" or ".join(launcher.workers))
    seen, verb = ", ".join(f"{name}={given[name]}" for name in found), "is" if len(missing) == 1 else "are"
    raise CompositionError(
        f"This process was started by {launcher.name} ({seen}), and {' and '.join(missing)} {verb} not set, so it knows no rank or "
        "number: set RANK, WORLD_SIZE and MASTER_ADDR for each process, or RANK=0 and WORLD_SIZE=1 for one that trains alone."
    )
