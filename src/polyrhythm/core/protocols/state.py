"""The protocol of objects with a state that a checkpoint must hold. Parts, channels, codecs' memory and servers have it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from polyrhythm.core.trees import StateTree

Name = TypeVar("Name")
Clock = TypeVar("Clock", int, float)


class Stateful(Protocol):
    """An object with a state. Law: one that `restore` was given an `export` of continues as the exporter did, bit for bit."""

    def export(self) -> StateTree:
        """All that is needed to continue, by name. Tensors may be those in use: a caller that keeps the tree copies them."""

    def restore(self, state: StateTree) -> None:
        """Take over what was exported; only called on one that was set up in the same way."""


def admitted(clocks: Mapping[Name, Clock], names: Iterable[Name], first: Clock) -> dict[Name, Clock]:
    """The clocks of `names`: those that are known, and for others that of the slowest that has not ended, or `first` if there is none."""
    slowest = min((clock for clock in clocks.values() if clock < math.inf), default=first)
    return {name: clocks.get(name, slowest) for name in names}


class ServerCheckpoints(Protocol):
    """The files of a server's state: written at a checkpoint, and read in a run that is resumed."""

    def resume(self, restore: Callable[[StateTree], None], export: Callable[[], StateTree]) -> None:
        """Call `restore` with the state that the server exported in the run that is resumed, or before the crew changed, if there is one.

        `export` gives the server's state, when the crew changes again.
        """

    @property
    def changed(self) -> bool:
        """True if `resume` gives the state from before a change of the crew: what was under way to and from others is dropped."""

    def of(self, server: str) -> ServerCheckpoints:
        """The files of another server, whose part this one has taken over."""

    def write(self, step: int, state: StateTree) -> str:
        """Write the server's part of the checkpoint after `step`. Returns an error as a sentence, else ""."""
