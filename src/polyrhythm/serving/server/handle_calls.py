"""Calls of Ray Serve's handles from a program without an event loop.

They run in a loop of their own thread: with RAY_SERVE_THROUGHPUT_OPTIMIZED a handle works in an event loop only (Ray 2.60).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

Call = tuple[Any, str, tuple[Any, ...]]
"""A handle, the name of a method, and its arguments."""


class HandleCalls:
    """A thread with an event loop, until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="calls of replicas", daemon=True)
        self._thread.start()

    def all(self, calls: Mapping[str, Call], seconds: float) -> dict[str, Any]:
        """The results of all calls by name, made at once; what one raised, or its TimeoutError after `seconds`, stands in its place."""

        async def gathered() -> list[Any]:
            made = (asyncio.wait_for(_awaited(*call), seconds) for call in calls.values())
            return await asyncio.gather(*made, return_exceptions=True)

        ended = asyncio.run_coroutine_threadsafe(gathered(), self._loop).result()
        return dict(zip(calls, ended, strict=True))

    def begin(self, call: Call) -> None:
        """Make a call whose result nobody waits for."""
        asyncio.run_coroutine_threadsafe(_awaited(*call), self._loop)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(handle: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    return await getattr(handle, method).remote(*arguments)
