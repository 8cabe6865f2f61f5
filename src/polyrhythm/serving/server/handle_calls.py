"""Calls of Ray Serve's handles from a program without an event loop.

They run in a loop of their own thread: with RAY_SERVE_THROUGHPUT_OPTIMIZED a handle works in an event loop only (Ray 2.60).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from polyrhythm.errors import RunError

Result = TypeVar("Result")
Call = tuple[Any, str, tuple[Any, ...]]
"""A handle, the name of a method, and its arguments."""


class HandleCalls:
    """A thread with an event loop, until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._loop.run_forever, name="calls of replicas", daemon=True)
        self._thread.start()

    def all(self, calls: Mapping[str, Call], seconds: float) -> dict[str, Any]:
        """The results of all calls by name, made at once; what one raised, or its TimeoutError after `seconds`, stands in its place."""

        async def gathered() -> list[Any]:
            made = (asyncio.wait_for(_awaited(*call), seconds) for call in calls.values())
            return await asyncio.gather(*made, return_exceptions=True)

        return dict(zip(calls, self._submit(gathered()).result(), strict=True))

    def begin(self, call: Call) -> None:
        """Make a call whose result nobody waits for."""
        self._submit(_awaited(*call))

    def close(self) -> None:
        """Give up the calls that are still waited for, whose `all` raises CancelledError, and end the thread. Once is enough."""
        with self._lock:
            ended, self._ended = self._ended, True
        if ended:
            return
        # without this, a thread that waits for an answer in `all` would wait for ever, and hold up the end of the program
        asyncio.run_coroutine_threadsafe(_cancelled(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _submit(self, made: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine in the loop. Raises RunError when the calls have ended."""
        with self._lock:
            if not self._ended:
                return asyncio.run_coroutine_threadsafe(made, self._loop)
        made.close()
        raise RunError("The site has ended, and takes no calls: start another.")


async def _cancelled() -> None:
    """Cancel all other tasks of this loop, and wait until they have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _awaited(handle: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    return await getattr(handle, method).remote(*arguments)
