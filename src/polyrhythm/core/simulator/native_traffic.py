"""Links, connections and their traffic in C: see `_traffic.c`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from polyrhythm.core.simulator import connection
from polyrhythm.core.simulator._traffic import Connection, SharedLink, Traffic, alone_on  # so what is missing differs from what is broken
from polyrhythm.core.simulator.traffic import Arrival


def native_parts() -> tuple[
    type[connection.SharedLink], type[connection.Connection], Callable[[Any, int, Arrival | None], Traffic], connection.Alone
]:
    """The classes of links and of connections, what begins their traffic, and the rate of a flow alone.

    They have those attributes of the classes in Python that others than their traffic use.
    """
    link, made = cast(type[connection.SharedLink], SharedLink), cast(type[connection.Connection], Connection)
    return link, made, lambda routes, few, arrival: Traffic(few, arrival), alone_on
