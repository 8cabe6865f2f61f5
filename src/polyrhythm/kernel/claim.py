"""What a worker holds in the end, which must be what all others hold, or nearly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from polyrhythm.kernel.agreement import Facts
from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.message import Message


@dataclass(frozen=True, slots=True)
class Claim:
    """`facts` are what all should say alike. Where they do not, `judge` compares with what one of them holds instead.

    `held` is what this worker would show, `show` a coroutine that brings what worker 0 holds to all. `judge` is given that, and returns
    what all must say alike then, or the run ends with `remedy`; of `held` itself it says what all should.
    """

    facts: Facts
    held: Message
    show: Callable[[], Coroutine[Effect[Any], Any, Message]]
    judge: Callable[[Message], Facts]
    remedy: str
