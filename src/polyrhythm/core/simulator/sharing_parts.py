"""The classes of links, connections and their sharing: in C where that was built, else in Python, with the same bits.

`Flows` composes them; `BEST` are those of this installation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.simulator.connection import Connection, SharedLink
from polyrhythm.core.simulator.routes import Routes
from polyrhythm.core.simulator.sharing import FEW, Sharing

try:
    from polyrhythm.core.simulator.native_sharing import native_parts
except ModuleNotFoundError as missing:
    if missing.name != "polyrhythm.core.simulator._sharing":
        raise
    native_parts = None  # type: ignore[assignment]  # no C compiler was at hand at the installation


class LinkSharing(Protocol):
    """The flows on the links, and when each of them ends: `Sharing`, whose docstrings say what each call does."""

    @property
    def changed(self) -> bool:
        """True if `solve` has something to do."""

    def next_end(self) -> float:
        """The time at which the next flow ends; math.inf if none does."""

    def first_end(self) -> float:
        """The first time in the heap, perhaps of an end that was moved; math.inf for none."""

    def take_ended(self, limit: float) -> list[Connection]:
        """The flows that end until `limit`, by their keys; each must be detached or restarted."""

    def begin(self, connection: Connection) -> None:
        """Let the `remaining` bytes of `connection` flow from now on."""

    def restart(self, connection: Connection, nbytes: int, now: float) -> None:
        """Let `nbytes` follow on a flow that has just ended."""

    def detach(self, connection: Connection, now: float) -> None:
        """Take a flow off its links, and note what remains of it."""

    def resize(self, link: SharedLink) -> None:
        """The capacity of `link` has changed."""

    def solve(self, now: float) -> None:
        """Give rates to all flows that changed since the last call."""


@dataclass(frozen=True, slots=True)
class SharingParts:
    """The class of links, that of connections, and what begins their sharing; up to `few` flows are solved one by one."""

    link: type[SharedLink]
    connection: type[Connection]
    begin: Callable[[Routes, int], LinkSharing]
    few: int = FEW


PORTABLE = SharingParts(SharedLink, Connection, Sharing)


NATIVE = None if native_parts is None else SharingParts(*native_parts())
BEST = NATIVE or PORTABLE
