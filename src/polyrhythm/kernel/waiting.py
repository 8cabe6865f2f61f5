"""What an actor waits for, in the words of whoever wrote the training function."""

from __future__ import annotations

import re

from polyrhythm.kernel.message import CALL

_CALLED = re.compile(rf"{CALL}/(?P<kind>\w+)/(?P<number>\d+)")


def awaited(topic: str, sender: str = "") -> str:
    """What comes under `topic` from `sender` (from anyone without): a call of the program's own by its name, else the topic."""
    if found := _CALLED.search(topic):
        return f"{sender or 'the others'} in worker.{found['kind']}() (call {found['number']} of barrier, mean, any and broadcast)"
    if topic == CALL:
        return "the others in worker.barrier(), mean() or any()"
    return f"{topic!r} from {sender or 'anyone'}"
