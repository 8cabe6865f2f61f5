"""The kinds of what a command can be given to compare: training functions, and scripts of torch.distributed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.planned_run import Planned
from polyrhythm.tools.cli.prepare import Jobs, Typed
from polyrhythm.tools.cli.scripts import Scripts, is_script

ALL = "all"
"""What `--systems` says for every system."""


class Loaded(Protocol):
    """What was loaded, and can be run."""

    def at(self, given: Typed) -> Loaded:
        """The same on other machines."""

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise PolyrhythmErrors for settings that it does not have."""

    def share_batch(self, total: int, strategies: Mapping[str, Strategy | None]) -> dict[str, dict[str, str]]:
        """The batch of each worker, for each system. Raises CompositionError where there is none."""

    def plan(
        self, name: str, place: str, strategy: Strategy | None, settings: Mapping[str, Any], seed: int, notes: Mapping[str, str]
    ) -> Planned:
        """One run of it, with `notes` in its record. Raises PolyrhythmErrors for settings that it does not have."""


class Kind(Protocol):
    """One kind. `counts` are the numbers of workers and `usual` the systems where none are given."""

    @property
    def counts(self) -> tuple[int, ...]:
        """The usual numbers of workers."""

    @property
    def usual(self) -> str | None:
        """The systems as `--systems` names them; None where it is run without one."""

    def settled(self, where: RuntimeOptions) -> RuntimeOptions:
        """The options with the runtime filled in, where there is one alone."""

    def unnamed(self, options: Mapping[str, str]) -> dict[str, Strategy | None]:
        """What it is run with where there is no system. Raises CompositionError for `options` of systems."""

    def fitting(self, strategies: Mapping[str, Strategy | None], given: Typed) -> dict[str, Strategy | None]:
        """Those of all strategies that it can be run with."""

    def prepared(self, given: Typed, metric: str) -> AbstractContextManager[Loaded]:
        """What was typed, loaded; a run is to give the `metric`. Raises PolyrhythmErrors for what cannot be used."""


def kind_of(job: str) -> Kind:
    """The kind of what was typed."""
    return Scripts() if is_script(job) else Jobs()
