"""One way of training: a published system with its options, so many workers, and settings of the JOB. The space of a search makes
candidates, and all its stages run and compare them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.shuffle import ByShares
from polyrhythm.systems import find
from polyrhythm.tools.planner.chosen_machines import EVERY, ChosenMachines

Pairs = tuple[tuple[str, Any], ...]
GROUPS = "groups"
"""The option by which systems that exchange in levels take their groups."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """`options` are the system's, `settings` the JOB's; what is not named has its default. `machines` are those of the workers."""

    system: str
    workers: int
    options: Pairs = ()
    settings: Pairs = ()
    machines: ChosenMachines = EVERY

    @property
    def strategy(self) -> Strategy:
        """Composed anew. Raises CompositionError for options that cannot be, and for batches by speed where each needs equal ones."""
        found = find(self.system, **dict(self.options))
        return replace(found, shuffle=ByShares(self.machines.shares)) if self.machines.shares else found

    @property
    def is_alone(self) -> bool:
        """True if it is one worker without others."""
        return self.workers == 1

    @property
    def name(self) -> str:
        """Readable, and one for each candidate."""
        shown = ", ".join(f"{key}={show(value)}" for key, value in (*self.options, *self.settings))
        some = f" {self.machines.words}" if self.machines else ""
        return f"{self.system} × {self.workers}{some}" + (f" ({shown})" if shown else "")

    def arguments(self) -> list[str]:
        """The arguments of a command that runs its system."""
        options = [part for key, value in self.options for part in ("--option", f"{key}={show(value)}")]
        settings = [part for key, value in self.settings for part in ("--set", f"{key}={show(value)}")]
        shares = ["--shares", ",".join(map(str, self.machines.shares))] if self.machines.shares else []
        return ["--workers", str(self.workers), *shares, *options, *settings]

    def machine_arguments(self) -> list[str]:
        """The further arguments of a command in virtual time that has its machines and no others."""
        some = self.machines
        return ["--machines", f"{','.join(map(str, some.places))}/{some.of}"] if some else []

    def of(self, workers: int) -> Candidate:
        """The candidate with so many workers, unless its machines are named."""
        return self if self.machines else replace(self, workers=workers)

    def on(self, machines: ChosenMachines) -> Candidate:
        """The candidate on these machines, with a worker on each, and in their groups."""
        options = (*self._ungrouped, *([(GROUPS, machines.groups)] if machines.groups else []))
        return replace(self, workers=len(machines.places), options=options, machines=machines)

    def on_every(self, workers: int) -> Candidate:
        """The candidate with so many workers, on the machines in turn."""
        return replace(self, workers=workers, options=self._ungrouped, machines=EVERY)

    @property
    def _ungrouped(self) -> Pairs:
        """The options without groups that were made of its machines."""
        return tuple(pair for pair in self.options if not self.machines.groups or pair[0] != GROUPS)

    def with_settings(self, base: Mapping[str, Any]) -> Candidate:
        """The candidate with `base` settings of the JOB as well; its own settings take precedence."""
        return replace(self, settings=tuple({**base, **dict(self.settings)}.items()))


ALONE = Candidate("single", 1)
"""One worker that exchanges nothing, with the JOB's own settings."""


def first_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first candidate of every system, in this order."""
    found: dict[str, Candidate] = {}
    for each in candidates:
        found.setdefault(each.system, each)
    return list(found.values())


def show(value: Any) -> str:
    """The value of an option or setting, as it is typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)
