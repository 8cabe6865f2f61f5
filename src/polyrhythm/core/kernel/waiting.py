"""Describes what an actor waits for, in terms of the training function."""

from __future__ import annotations

import re

from polyrhythm.core.kernel.message import CALL

_CALLED = re.compile(rf"{CALL}/(?P<kind>\w+)/(?P<number>\d+)")


def awaited(topic: str, sender: str = "") -> str:
    """A description of messages under `topic` from `sender` (from any actor if empty): the user's call by its name, else the topic."""
    if found := _CALLED.search(topic):
        return f"{sender or 'the others'} in worker.{found['kind']}() (call {found['number']} of barrier, mean, any and broadcast)"
    if topic == CALL:
        return "the others in worker.barrier(), mean() or any()"
    return f"{topic!r} from {sender or 'anyone'}"
