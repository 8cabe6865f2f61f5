"""Settings of tensor fusion that may change while a run is under way, at the same step of all workers."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.trees import StateTree


class Knobs(NamedTuple):
    """The bytes of the fusion buffer, and the seconds of a cycle."""

    nbytes: int
    cycle_seconds: float


class Tuner(Protocol):
    """One worker's side of the tuning."""

    @property
    def knobs(self) -> Knobs:
        """The settings of the next step."""

    def step(self, nbytes: int) -> Coroutine[Effect[Any], Any, None]:
        """A step has ended, in which `nbytes` of gradients were summed."""

    def export(self) -> StateTree:
        """The state for a checkpoint."""

    def restore(self, state: StateTree) -> None:
        """Take over an exported state."""


class FusionTuning(Protocol):
    """The tuning of fusion; frozen settings that make a tuner for a worker."""

    def tuner(self, knobs: Knobs, port: Port, group: Group) -> Tuner:
        """A worker's side, which begins with `knobs`."""


@dataclass(frozen=True, slots=True)
class Untuned:
    """The settings stay as they are."""

    def tuner(self, knobs: Knobs, port: Port, group: Group) -> Tuner:
        """One that never changes them."""
        return _Unchanged(knobs)


@dataclass(frozen=True, slots=True)
class _Unchanged:
    knobs: Knobs

    async def step(self, nbytes: int) -> None:
        return None

    def export(self) -> StateTree:
        return None

    def restore(self, state: StateTree) -> None:
        return None
