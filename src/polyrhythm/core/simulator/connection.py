"""The state of a link, of an actor's host, and of the connection from one actor to another.

`Routes` makes these objects. `Flows` and its parts (`Sharing`, `FlowGroup`, `Pauses`) keep the flows in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 65_536
"""Idle connections beyond this many are forgotten: random partners would otherwise fill the memory."""


class GroupOfFlows(Protocol):
    """Flows that share links, solved together: a `FlowGroup`. `end` is when the first ends; `changes` counts since it was solved."""

    flows: list[Connection]
    changes: int
    end: float
    key: int
    generation: int

    def add(self, flow: Connection, now: float) -> None: ...

    def remove(self, flow: Connection, now: float) -> None: ...

    def restart(self, flow: Connection, nbytes: int, now: float) -> None: ...

    def disband(self, now: float) -> list[Connection]: ...

    def solve(self, now: float, capacities: NDArray[np.float64]) -> None: ...

    def collect_ended(self, limit: float, ended: list[Connection]) -> None: ...


class SharedLink:
    """A capacity in bytes per second and the flows that share it, by their connections' keys.

    `group` is set while all flows here belong to that group. `left`, `unsettled` and `mark` are scratch space of the filling.
    """

    __slots__ = ("capacity", "flows", "group", "index", "left", "mark", "unsettled")

    def __init__(self, index: int, capacity: float) -> None:
        self.index = index
        self.capacity = capacity
        self.flows: dict[int, Connection] = {}
        self.group: GroupOfFlows | None = None
        self.left = 0.0
        self.unsettled = 0
        self.mark = 0


def alone_on(links: Sequence[SharedLink]) -> float:
    """The rate of a flow that has `links` for itself; one that it takes twice gives it half."""
    if len(set(links)) == len(links):
        return min([link.capacity for link in links])
    return min([link.capacity / links.count(link) for link in links])


Alone = Callable[[Sequence[Any]], float]
"""`alone_on`, or what does the same for links of other classes."""


class Endpoint:
    """The place of an actor in the network: its host, its site and the links of its host. `code` orders actors, whenever they first sent.

    `sending` counts its connections on which something is on its way. While it is `watched`, `Flows.fell_silent` notes when that ends.
    """

    __slots__ = ("code", "egress", "host", "ingress", "name", "names", "sending", "site", "watched")

    def __init__(self, name: str, host: int, site: int, site_name: str, links: tuple[SharedLink, SharedLink]) -> None:
        role, _, number = name.partition("/")
        self.name = name
        self.names = (name, f"host/{host}", f"site/{site_name}")
        self.code = int(number) * 2 + (role == "server")
        self.host = host
        self.site = site
        self.egress, self.ingress = links
        self.sending = 0
        self.watched = False


class Connection:
    """The first-in-first-out connection from one actor to another: at most one message is on it, others wait.

    While it is a separate flow, `remaining` bytes were left at `since` and flow at `rate`; in a group, the group has these figures.
    `alone` is the rate when no link of its path is shared; a link that the path takes twice is twice in `links`. `round_trip` is the
    latency there and back. `cuts` counts the faults and pauses that stop it. While it is `watched`, `Flows.fell_silent` notes
    when its last byte has left.
    """

    __slots__ = (
        "alone",
        "attached",
        "busy",
        "cuts",
        "generation",
        "group",
        "key",
        "latency",
        "links",
        "mark",
        "rate",
        "receiver",
        "remaining",
        "round_trip",
        "sender",
        "share",
        "since",
        "slot",
        "token",
        "waiting",
        "watched",
    )  # fmt: skip

    def __init__(
        self, sender: Endpoint, receiver: Endpoint, links: tuple[SharedLink, ...], alone: float, latency: float, round_trip: float
    ) -> None:
        self.sender = sender
        self.receiver = receiver
        self.key = sender.code << 32 | receiver.code
        self.links = links
        self.alone = alone
        self.latency = latency
        self.round_trip = round_trip
        self.busy = False
        self.attached = False
        self.token: object = None
        self.waiting: deque[tuple[int, object]] | None = None
        self.watched = False
        self.remaining: float = 0.0
        self.rate = 0.0
        self.share = 0.0
        self.since = 0.0
        self.generation = 0
        self.group: GroupOfFlows | None = None
        self.slot = 0
        self.cuts = 0
        self.mark = 0

    def collect_ended(self, limit: float, ended: list[Connection]) -> None:
        """Add it to `ended`: called when its end is due."""
        ended.append(self)


def is_between(connection: Connection, a: str, b: str) -> bool:
    """True if it joins `a` and `b` in one direction or the other; each is an actor, "host/3" or "site/Tokyo"."""
    here, there = connection.sender.names, connection.receiver.names
    return (a in here and b in there) or (b in here and a in there)
