"""Several coroutines of one actor that run at the same time, and one that waits for all of them."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from polyrhythm.core.kernel.effects import Effect, NativeReduction
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.port import Port

T = TypeVar("T")

Start = Callable[[], Coroutine[Effect[Any], Any, T]]
"""Makes a coroutine."""


async def together(port: Port, starts: Sequence[Start[T]]) -> list[T]:
    """The results of all coroutines, in order, when the last has ended; raises the first error as soon as there is one.

    One alone is awaited in place. A runtime that needs the native sums of a group in one order at all its members makes those of a
    coroutine when the ones before it have ended, so coroutines without sums belong at the end.
    """
    if len(starts) == 1:
        return [await starts[0]()]
    outcomes, before = _Concurrent(len(starts)), list[Latch]()
    for number, start in enumerate(starts):
        ended = Latch()
        await port.spawn(f"concurrent {number}", _run(number, start, tuple(before), ended, outcomes))
        before.append(ended)
    await port.wait(outcomes.over)
    if outcomes.error is not None:
        raise outcomes.error
    return [outcomes.results[number] for number in range(len(starts))]


@dataclass(slots=True)
class _Concurrent:
    """`over` opens with the first error, and when none of the coroutines is `left`."""

    left: int
    results: dict[int, Any] = field(default_factory=dict)
    error: Exception | None = None
    over: Latch = field(default_factory=Latch)


async def _run(number: int, start: Start[Any], before: tuple[Latch, ...], ended: Latch, outcomes: _Concurrent) -> None:
    try:
        outcomes.results[number] = await _summing_after(start(), before)
    except Exception as error:  # it is raised where all are waited for
        outcomes.error = outcomes.error or error
    outcomes.left -= 1
    ended.open()
    if not outcomes.left or outcomes.error is not None:
        outcomes.over.open()


@types.coroutine
def _summing_after(coroutine: Coroutine[Effect[Any], Any, Any], before: tuple[Latch, ...]) -> Generator[Effect[Any], Any, Any]:
    """Drive `coroutine` to its end; its native sums are to come `after` the latches."""
    result: Any = None
    error: Exception | None = None
    try:
        while True:
            effect = coroutine.send(result) if error is None else coroutine.throw(error)
            if isinstance(effect, NativeReduction):
                effect.after = before
            result, error = None, None
            try:
                result = yield effect
            except Exception as problem:
                error = problem
    except StopIteration as stop:
        return stop.value
    finally:
        coroutine.close()
