"""Schedules of exchanges: the steps after which workers that take local steps exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class ExchangeSchedule(Protocol):
    """Frozen settings. Clocks count a worker's steps from 1."""

    def due(self, clock: int) -> bool:
        """True if an exchange follows the step `clock`."""

    def before(self, clock: int) -> int:
        """The last step before `clock` that an exchange follows; 0 if there is none."""


@dataclass(frozen=True, slots=True)
@checked
class Every:
    """Every `steps` steps; the first time after `offset`, if that is not 0 (the fragments of Douillard et al., 2025, are staggered so)."""

    steps: int
    offset: int = 0

    def __post_init__(self) -> None:
        if not self.steps >= 1 or not 0 <= self.offset < self.steps:
            raise CompositionError(
                f"Every({self.steps}, offset={self.offset}) is no schedule: give 1 step or more, and an offset from 0 to below that."
            )

    def due(self, clock: int) -> bool:
        """True at every multiple of `steps`, counted from the offset."""
        return clock % self.steps == self.offset

    def before(self, clock: int) -> int:
        """The last such step before `clock`."""
        return max(0, (clock - 1 - self.offset) // self.steps * self.steps + self.offset)


@dataclass(frozen=True, slots=True)
@checked
class Switched:
    """After each of the first `synchronous` steps, then every `steps` steps (post-local SGD; Lin, Stich, Patel, Jaggi, ICLR 2020)."""

    synchronous: int
    steps: int

    def __post_init__(self) -> None:
        if not (self.synchronous >= 0 and self.steps >= 1):
            raise CompositionError(
                f"Switched({self.synchronous}, {self.steps}) is no schedule: give 0 synchronous steps or more, and 1 local step or more."
            )

    def due(self, clock: int) -> bool:
        """True for the synchronous steps, then at multiples counted from the last of them."""
        return clock <= self.synchronous or (clock - self.synchronous) % self.steps == 0

    def before(self, clock: int) -> int:
        """The step before while steps are synchronous, later the last multiple before `clock`."""
        local = clock - 1 - self.synchronous
        return clock - 1 if local <= 0 else self.synchronous + local // self.steps * self.steps
