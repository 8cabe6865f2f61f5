"""An event loop of asyncio whose clock jumps to the next moment at which something is due: no test waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

Result = TypeVar("Result")


class Jumping:
    """A selector that never waits: it moves the clock instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._inner.select(0)
        if not events:
            assert timeout is not None, "something waits for what never comes"
            self.now += timeout
        return events

    def register(self, file: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(file, events, data)

    def unregister(self, file: Any) -> selectors.SelectorKey:
        return self._inner.unregister(file)

    def modify(self, file: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(file, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def get_key(self, file: Any) -> selectors.SelectorKey:
        return self._inner.get_key(file)

    def close(self) -> None:
        self._inner.close()


def in_virtual_time(main: Coroutine[Any, Any, Result]) -> Result:
    """The result of `main`, whose sleeps take no time."""
    selector = Jumping()
    loop = asyncio.SelectorEventLoop(selector)  # type: ignore[arg-type]
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
