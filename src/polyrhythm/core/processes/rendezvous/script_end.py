"""The end of a script that joined a run, as an exit handler can see it.

A script has ended well when its outermost code has returned, or called `sys.exit` with 0. Python keeps the exception that ended it,
but for SystemExit; so calls of `sys.exit` are noted, and a SystemExit that was raised without it is known, and its exit code is not.
"""

from __future__ import annotations

import atexit
import dis
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

from polyrhythm.core.kernel.stopping import exit_code, latest, noted_end, notify, tell
from polyrhythm.errors import PolyrhythmError, WorkerFailed, sentence

_RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}


class Script:
    """The script of this process, watched from now on."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._outermost = _outermost()
        _watched.append(self)
        _note_exits()

    def release(self) -> None:
        """Watch no more; with the last, `sys.exit` is again what it was."""
        if self in _watched:
            _watched.remove(self)
        if not _watched:
            _forget_exits()

    @property
    def here(self) -> bool:
        """True in the process that was watched, while it is not ending badly; False in a fork of it, which inherits exit handlers."""
        return os.getpid() == self._process and not _ending

    def fault(self, name: str, settled: bool) -> BaseException | None:
        """The error that ended it, if that is a failure of the worker `name`; `settled` is true if nothing was left to do in its run."""
        if self._outermost is None or _returned(self._outermost):
            return None
        last = getattr(sys, "last_value", None)
        if _exits and _exits[-1][1] is last:  # nothing was raised since
            code = _exits[-1][0]
            if (problem := noted_end(code)) is not None:
                return problem
            return None if code is None or code == 0 else SystemExit(code)
        if isinstance(last, BaseException):
            return last
        if (stopped := latest()) is not None:
            return stopped
        return None if settled else WorkerFailed(
            name,
            "it raised SystemExit without calling sys.exit, so its exit code is unknown: end the script with sys.exit(...), "
            "or call worker.finish() before",
        )  # fmt: skip


def end_badly(error: BaseException) -> NoReturn:
    """End this process with an exit code from within an exit handler, which else could not: after the others, and with a message."""
    _ending.append(error)
    if isinstance(error, KeyboardInterrupt):
        tell(error)
    else:
        notify(sentence(error) if isinstance(error, PolyrhythmError) else f"{type(error).__name__}: {error}")
    with suppress(BaseException):  # it is theirs to report
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(exit_code(error) if isinstance(error, KeyboardInterrupt) else 1)


_watched: list[Script] = []
_ending: list[BaseException] = []
_exits: list[tuple[Any, object]] = []
"""The last call of `sys.exit` in the main thread: its argument, and the last exception that had come to the top before."""


def _note_exits() -> None:
    plain: Callable[..., NoReturn] = sys.exit
    if getattr(plain, "notes_exits", None) is not None:
        return

    @wraps(plain)
    def exit(status: Any = None, /) -> NoReturn:
        if threading.current_thread() is threading.main_thread():
            _exits[:] = [(status, getattr(sys, "last_value", None))]
        plain(status)

    exit.notes_exits = plain  # type: ignore[attr-defined]
    sys.exit = exit


def _forget_exits() -> None:
    """Undo `_note_exits`, unless somebody else has wrapped `sys.exit` since."""
    plain = getattr(sys.exit, "notes_exits", None)
    if plain is not None:
        sys.exit = plain
    _exits.clear()


def _outermost() -> FrameType | None:
    """The frame in which the main thread began: its code is the script, or what runs the script."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    """True if the last instruction of a frame that has ended was to return."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _RETURNS
