"""State of a worker that must be equal at all workers, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.message import Message


@dataclass(frozen=True, slots=True)
class Alignment:
    """`facts` are compared first. Where they differ, `judge` compares the state itself with that of one worker.

    `held` is this worker's state, and `show` a coroutine that broadcasts worker 0's. `judge` gets a state and returns facts, which must
    then be equal at all workers, or the run ends with `remedy`; given `held`, it returns the facts that are expected of all.
    """

    facts: Facts
    held: Message
    show: Callable[[], Coroutine[Effect[Any], Any, Message]]
    judge: Callable[[Message], Facts]
    remedy: str
