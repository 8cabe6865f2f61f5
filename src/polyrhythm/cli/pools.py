"""Where the runs of a comparison are made when several are made at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from polyrhythm.cli.planned_run import PlannedRun
from polyrhythm.errors import unknown
from polyrhythm.report.progress import ProgressLine
from polyrhythm.training.run import Attempt

Done = Callable[[int, Attempt], None]
HOST = "host"
_POOLS = {HOST: "polyrhythm.cli.run_pool:RunPool", "ray": "polyrhythm.cli.ray_pool:RayPool"}


class Pool(Protocol):
    """Makes several runs at once."""

    def work(self, plans: Sequence[tuple[int, PlannedRun, Path | None]]) -> None:
        """Make all runs, each with its place among the plans and the directory for its record; whatever ends this ends those under way.

        Raises the PolyrhythmError of a run that could not be begun.
        """


def check(name: str) -> None:
    """Raises UnknownNameError for a pool that does not exist."""
    if name not in _POOLS:
        raise unknown("place for --jobs", name, _POOLS)


def pool_of(name: str) -> Callable[[int, ProgressLine, Done], Pool]:
    """The pool of that name: given how many runs it makes at once, what shows progress, and what is called with each that ended."""
    module, _, kind = _POOLS[name].partition(":")
    found: Callable[[int, ProgressLine, Done], Pool] = getattr(importlib.import_module(module), kind)
    return found
