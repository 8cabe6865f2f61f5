"""Links, connections and their sharing in C: see `_sharing.c`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from polyrhythm.core.simulator import connection
from polyrhythm.core.simulator._sharing import Connection, SharedLink, Sharing  # so what is missing differs from what is broken


def native_parts() -> tuple[type[connection.SharedLink], type[connection.Connection], Callable[[Any, int], Sharing]]:
    """The classes of links and of connections, and what begins their sharing.

    They have those attributes of the classes in Python that others than their sharing use.
    """
    link, made = cast(type[connection.SharedLink], SharedLink), cast(type[connection.Connection], Connection)
    return link, made, lambda routes, few: Sharing(few)
