"""What stands in Python's place while ranks share a process: signals, what is done at the exit, forks, and the end of a process.

A rank is not in the main thread, where alone Python lets signals be handled.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from polyrhythm.torch_programs.ranks import Rank, current, forget

if hasattr(os, "register_at_fork"):  # Linux
    os.register_at_fork(after_in_child=forget)


def _signal(rank: Rank, number: int, handler: Any) -> Any:
    before = _getsignal(rank, number)
    rank.handlers[number] = handler
    return before


def _getsignal(rank: Rank, number: int) -> Any:
    return rank.handlers.get(number, signal.SIG_DFL)


def _register(rank: Rank, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    rank.at_exit.append((call, args, kwargs))
    return call


def _unregister(rank: Rank, call: Callable[..., Any]) -> None:
    rank.at_exit[:] = [each for each in rank.at_exit if each[0] != call]


def leave(at_exit: list[tuple[Callable[..., Any], Any, Any]]) -> None:
    """Make the calls that are registered for the exit, the last first; their errors are shown, and end nothing, as in Python."""
    while at_exit:
        call, args, kwargs = at_exit.pop()
        try:
            call(*args, **kwargs)
        except (Exception, SystemExit) as problem:
            print(f"Exception ignored in atexit callback: {call!r}", file=sys.stderr)
            traceback.print_exception(problem)


def _exit(rank: Rank, status: int) -> None:
    rank.at_exit.clear()
    raise SystemExit(status)


def _ignore(rank: Rank, *args: Any) -> None:
    """It can be set once in a process, which has one thread for all ranks."""


_OURS: list[tuple[Any, str, Callable[..., Any]]] = [
    (signal, "signal", _signal),
    (signal, "getsignal", _getsignal),
    (signal, "set_wakeup_fd", lambda rank, fd, **how: -1),
    (atexit, "register", _register),
    (atexit, "unregister", _unregister),
    (os, "_exit", _exit),
    (torch, "set_num_interop_threads", _ignore),
]


@contextmanager
def process_of_ranks() -> Iterator[None]:
    """Put it there for the time of a run. Threads that are no rank find what was there before."""
    with ExitStack() as undo:
        for where, name, ours in _OURS:
            theirs = getattr(where, name)
            undo.callback(setattr, where, name, theirs)
            setattr(where, name, _by_rank(ours, theirs))
        yield


def _by_rank(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        rank = current()
        return theirs(*args, **kwargs) if rank is None else ours(rank, *args, **kwargs)

    return chosen
