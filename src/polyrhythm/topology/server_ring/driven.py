"""A coroutine of an actor whose effects another one carries out, and may change."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from polyrhythm.core.kernel.effects import Effect

T = TypeVar("T")
Handler = Callable[[Effect[Any]], Coroutine[Effect[Any], Any, Any]]
"""Carries out an effect, by other effects, and returns what the coroutine gets for it."""


async def driven(coroutine: Coroutine[Effect[Any], Any, T], handle: Handler) -> T:
    """Run `coroutine` to its end, with `handle` between it and the runtime.

    It wraps a server or a client, which need not know of it: all that these send and receive are effects.
    """
    answer: Any = None
    try:
        while True:
            try:
                effect = coroutine.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = await handle(effect)
    finally:
        coroutine.close()
