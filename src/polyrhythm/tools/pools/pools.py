"""Pools, which make several runs at once: the runs of a comparison or of a plan. `pool_of` finds one by the name in `--jobs`; the searches
of the planner and `polyrhythm compare` call `work`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.records.progress import ProgressLine, Watch
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import PolyrhythmError, unknown

Done = Callable[[int, Attempt], None]
HOST = "host"
_POOLS = {HOST: "polyrhythm.tools.pools.run_pool:RunPool", "ray": "polyrhythm.tools.pools.ray_pool:RayPool"}


class RunTask(Protocol):
    """A run that is to be made."""

    @property
    def name(self) -> str:
        """The name in progress lines and errors."""

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run, keeping its record in `directory`."""

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""


class Pool(Protocol):
    """Makes several runs at once."""

    def work(self, plans: Iterable[tuple[int, RunTask, Path | None]]) -> None:
        """Make all runs, each with its place among the plans and the directory for its record; whatever ends this ends those under way.

        The next plan is asked for when there is room for it, so that it may depend on the runs that have ended.

        Raises the PolyrhythmError of a run that could not be started.
        """


Followed = tuple[RunTask, Callable[[Attempt], object]]
"""A run, and what is called with it when it has ended."""


def work(pool: Callable[[Done], Pool], runs: Iterable[Followed]) -> None:
    """Make all runs; the next one is asked for when there is room for it. Raises what the pool does."""
    under_way: dict[int, Callable[[Attempt], object]] = {}

    def plans() -> Iterator[tuple[int, RunTask, Path | None]]:
        for place, (task, then) in enumerate(runs):
            under_way[place] = then
            yield place, task, None

    def ended(place: int, attempt: Attempt) -> None:
        under_way.pop(place)(attempt)

    pool(ended).work(plans())


def check(name: str) -> None:
    """Raises UnknownNameError for a pool that does not exist."""
    if name not in _POOLS:
        raise unknown("place for --jobs", name, _POOLS)


def pool_of(name: str) -> Callable[[int, ProgressLine, Done], Pool]:
    """The pool of that name: given how many runs it makes at once, what shows progress, and what is called with each that ended."""
    module, _, kind = _POOLS[name].partition(":")
    found: Callable[[int, ProgressLine, Done], Pool] = getattr(importlib.import_module(module), kind)
    return found
