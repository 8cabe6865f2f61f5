"""Messages between workers and the servers of a ring: their topics, and their kinds, which are their first numbers."""

from __future__ import annotations

from enum import IntEnum

from polyrhythm.core.kernel.message import Message

INBOX = "ring"
"""All that comes to a server about one part of the weights has this topic, so that it has one order."""
LIST = "list"
"""A list of keys that a server has asked for."""


class RingMessage(IntEnum):
    """The first number of a message to a server."""

    REQUEST = 0
    """A worker's request: its number among those of the worker, then those of the request itself."""
    STATE = 1
    """The primary's state, for its replicas: the number of the state, and what `StateChanges` needs."""
    STORED = 2
    """The last replica has the state of this number."""
    GOODBYE = 3
    """A worker has the final weights."""
    WAKE = 4
    """A server's message to itself: an actor was lost."""


def scope_of(shard: int) -> str:
    """The prefix of the topics of one part of the weights."""
    return f"r{shard}/"


def control_message(kind: RingMessage, *numbers: float, text: str = "") -> Message:
    """A message without tensors."""
    return Message(INBOX, (float(kind), *numbers), text)
