"""A wait of all workers of a group for each other, by messages through the first."""

from __future__ import annotations

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

_CAME, _ALL = "barrier/came", "barrier/all"


async def barrier(port: Port, group: Group) -> None:
    """Return when every worker of `group` has called it; replicas call it where workers share memory, after the crew has changed."""
    if not group.is_first:
        await port.send(group.first, Message(_CAME))
        await port.receive(_ALL, group.first)
        return
    for name in group.members[1:]:
        await port.receive(_CAME, name)
    for name in group.members[1:]:
        await port.send(name, Message(_ALL))
