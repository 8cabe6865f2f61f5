"""The classes of links, connections and their traffic: in C where that was built, else in Python, with the same bits.

`Flows` composes them; `BEST` are those of this installation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.simulator.connection import Alone, Connection, SharedLink, alone_on
from polyrhythm.core.simulator.routes import Routes
from polyrhythm.core.simulator.sharing import FEW
from polyrhythm.core.simulator.traffic import Arrival, Traffic

try:
    from polyrhythm.core.simulator.native_traffic import native_parts
except ImportError as missing:
    if missing.name != "polyrhythm.core.simulator._traffic":
        raise
    native_parts = None  # type: ignore[assignment]  # no C compiler was at hand, or what it made is of older sources


class LinkTraffic(Protocol):
    """What flows on connections: `Traffic`, whose docstrings say what each call does."""

    @property
    def time(self) -> float:
        """The time that it has come to."""

    @property
    def fell_silent(self) -> list[tuple[str, str]]:
        """The ways on which nothing was left to send, since the reader last emptied this."""

    @property
    def idle(self) -> list[Connection]:
        """The connections on which that was so in the last `run`."""

    def start(self, connection: Connection, nbytes: int, token: object) -> bool:
        """Send `nbytes`; True if they begin to flow now."""

    def hold(self, connection: Connection) -> None:
        """Let `connection` flow or stand still, whose cuts have changed."""

    def resize(self, link: SharedLink) -> None:
        """The capacity of `link` has changed."""

    def next_time(self) -> float:
        """The time at which something is due next; math.inf if nothing is under way."""

    def run(self, now: float, look: float) -> bool:
        """Let everything end that ends until `now`; True where it stops before `look`."""

    def take(self) -> list[object]:
        """The tokens of what was delivered."""

    def lose(self, connection: Connection) -> list[object]:
        """Drop all that has not wholly left on `connection`; the tokens of what is lost."""


@dataclass(frozen=True, slots=True)
class SharingParts:
    """The class of links, that of connections, what begins their traffic, and the rate of a flow `alone` on its links.

    Up to `few` flows are solved one by one.
    """

    link: type[SharedLink]
    connection: type[Connection]
    begin: Callable[[Routes, int, Arrival | None], LinkTraffic]
    alone: Alone
    few: int = FEW


PORTABLE = SharingParts(SharedLink, Connection, Traffic, alone_on)


NATIVE = None if native_parts is None else SharingParts(*native_parts())
BEST = NATIVE or PORTABLE
