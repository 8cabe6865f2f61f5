"""The clocks of Python's `time`: virtual for ranks, real for other threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from polyrhythm.torch_programs.ranks import clock

_EPOCH = 1_700_000_000.0
"""What `time.time()` returns when a run begins: the same in each."""


def _clock(theirs: Callable[[], Any], of: Callable[[float], Any]) -> Callable[[], Any]:
    def read() -> Any:
        virtual = clock()
        return theirs() if virtual is None else of(virtual.time())

    return read


@contextmanager
def virtual_clocks() -> Iterator[None]:
    """Let ranks read the time of the run, and sleep in it."""
    sleep = time.sleep

    def slept(seconds: float) -> None:
        virtual = clock()
        (sleep if virtual is None else virtual.sleep)(seconds)

    replaced: dict[str, Callable[..., Any]] = {
        "time": _clock(time.time, lambda seconds: _EPOCH + seconds),
        "time_ns": _clock(time.time_ns, lambda seconds: int((_EPOCH + seconds) * 1e9)),
        "sleep": slept,
    }
    for name in ("perf_counter", "monotonic", "process_time", "thread_time"):
        replaced[name] = _clock(getattr(time, name), float)
        replaced[f"{name}_ns"] = _clock(getattr(time, f"{name}_ns"), lambda seconds: int(seconds * 1e9))
    with ExitStack() as undo:
        for name, value in replaced.items():
            undo.callback(setattr, time, name, getattr(time, name))
            setattr(time, name, value)
        yield
