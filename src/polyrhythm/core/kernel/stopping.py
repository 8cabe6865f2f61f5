"""Signals that ask this process to end: SIGTERM, SIGHUP and SIGQUIT end it as Ctrl-C does, so that records are closed and say why.

Python's own reaction to them is the system's: the process is gone, without a word. Here they raise `Stopped` in the main thread. A run
that can still write a checkpoint is not broken off, but asked to stop, by the first SIGTERM or SIGHUP.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from polyrhythm.errors import Stopped

ENDING = tuple(int(getattr(signal, name)) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
"""Ctrl-C, SIGINT, has a handler of Python's own."""
_AT_ONCE = {int(getattr(signal, name)) for name in ("SIGQUIT",) if hasattr(signal, name)}

Ask = Callable[[Stopped], None]

_asked: list[Ask] = []
_latest: list[Stopped] = []
_ended: list[tuple[BaseException, int]] = []
_owners: list[StopSignals] = []
_installed: list[int] = []


class StopSignals:
    """From `install` to `restore` these signals raise Stopped in the main thread, unless the program has a handler or ignores them.

    Only in the main thread. They do so until the last of those who have installed this restores it, in whatever order.
    """

    def install(self) -> StopSignals:
        """Take the place of the system's own reaction."""
        if threading.current_thread() is threading.main_thread():
            _owners.append(self)
            for number in ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, _Handler(os.getpid()))
                    _installed.append(number)
        return self

    def restore(self) -> None:
        """Let the system react again, but for signals that the program has given a handler meanwhile."""
        if self not in _owners or threading.current_thread() is not threading.main_thread():
            return
        _owners.remove(self)
        while _installed and not _owners:
            number = _installed.pop()
            if isinstance(signal.getsignal(number), _Handler):
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put this program's handlers of signals back after a call of a library that installs its own.

    Such a handler may exit: SystemExit with the number of a signal whose handler was replaced is Stopped. Only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (int(signal.SIGINT), *ENDING)}
    before = {number: handler for number, handler in found.items() if callable(handler)}
    try:
        yield
    except SystemExit as problem:
        number = problem.code
        if isinstance(number, int) and number in before and signal.getsignal(number) is not before[number]:
            raise Stopped(number) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # also where Python's is unchanged: the library's may lie below it


@dataclass(frozen=True, slots=True)
class _Handler:
    """The handler of these signals, for the `process` that has installed it."""

    process: int

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:  # a fork of the program's own, which its library may end by this very signal
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        problem = Stopped(number)
        _latest[:] = [problem]
        if _asked and number not in _AT_ONCE:
            _asked.pop()(problem)  # once: who asks a second time does not want to wait
        else:
            raise problem


@contextmanager
def stoppable() -> Iterator[None]:
    """`StopSignals` in a `with` statement."""
    signals = StopSignals().install()
    try:
        yield
    finally:
        signals.restore()


def come_again(problem: Stopped) -> None:
    """Have the signal come once more, from another thread, which breaks off any wait of the main thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, problem.number)


def latest() -> Stopped | None:
    """The Stopped that the latest of these signals has raised, or has given to an `ask`; also where somebody has caught it."""
    return _latest[0] if _latest else None


def note_end(problem: BaseException, code: int) -> None:
    """Have `noted_end` give `problem`, on whose account the program now ends with the exit code `code`."""
    _ended[:] = [(problem, code)]


def noted_end(code: object) -> BaseException | None:
    """The problem of which the program ends, where it ends with `code` because somebody has caught and noted that problem."""
    return _ended[0][0] if _ended and _ended[0][1] == code else None


def told(problem: KeyboardInterrupt) -> str:
    """A line for the user on what has ended the program, with what was noted at `problem`."""
    notes = ". ".join(getattr(problem, "__notes__", []))
    what = f"stopped by {problem.signal}{problem.reason}" if isinstance(problem, Stopped) else "interrupted"
    return f"{what}. {notes}." if notes else what


def notify(sentence: str) -> None:
    """Print a sentence for the user on stderr, if there is one, and somebody still reads it."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(f"polyrhythm: {sentence}", file=sys.stderr, flush=True)


def tell(problem: KeyboardInterrupt, about: str = "") -> None:
    """Print a line on what has ended the program, once for each problem, also where several of our calls raise it."""
    if not getattr(problem, "is_told", False):
        problem.is_told = True  # type: ignore[attr-defined]
        notify(f"{about}: {told(problem)}" if about else told(problem))


def exit_code(problem: KeyboardInterrupt | None) -> int:
    """The exit code of a program that `problem`, or else Ctrl-C, has ended."""
    return 128 + (problem.number if isinstance(problem, Stopped) else int(signal.SIGINT))


@contextmanager
def stops_reported() -> Iterator[None]:
    """Print one line on stderr where Stopped passes, after which Python ends the program without a word."""
    try:
        yield
    except Stopped as problem:
        tell(problem)
        raise


def ask_first(ask: Ask) -> None:
    """Until `forget`, the first SIGTERM or SIGHUP calls `ask`, in the main thread between two instructions, and raises nothing."""
    _asked.append(ask)


def forget(ask: Ask) -> None:
    """Remove `ask`, which `ask_first` has added."""
    if ask in _asked:
        _asked.remove(ask)


@contextmanager
def asked_first(ask: Ask) -> Iterator[None]:
    """`ask_first` in a `with` statement."""
    ask_first(ask)
    try:
        yield
    finally:
        forget(ask)
