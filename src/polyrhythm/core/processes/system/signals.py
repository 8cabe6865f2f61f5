"""Python's signal handlers put off, while the main thread does what an exception must not break off."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enumerations, whose look-ups take longer than sending a small message
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_WITHOUT_HANDLERS = {"SIGKILL", "SIGSTOP"}
_NUMBERS = tuple(
    int(each)
    for each in sorted(signal.valid_signals(), key=lambda each: each == signal.SIGINT)  # whose handler, which raises, is put back last
    if not (isinstance(each, signal.Signals) and each.name in _WITHOUT_HANDLERS)
)


class DeferredSignals:
    """Within `with`, a signal for which Python has a handler is only noted, and `on_signal` called; at the end its handler is called.

    All are called; what the first that raises has raised comes out of the `with` statement. In other threads than the main one, where no
    handlers run, it does nothing.
    """

    def __init__(self, on_signal: Callable[[], None]) -> None:
        self._on_signal = on_signal
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self.noted: list[tuple[int, FrameType | None]] = []
        """The signals that have come."""

    def __enter__(self) -> DeferredSignals:
        if threading.get_ident() == threading.main_thread().ident:
            try:
                handlers = tuple(map(_signal.getsignal, _NUMBERS))
                for number, handler in zip(_NUMBERS, handlers, strict=True) if any(map(callable, handlers)) else ():
                    if callable(handler):
                        self._handlers[number] = handler
                        _signal.signal(number, self._note)
            except BaseException:
                self._restore()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._handlers:
            return
        handlers, raised = dict(self._handlers), list[BaseException]()
        try:
            self._restore()
        except BaseException as problem:
            raised.append(problem)
        noted, self.noted = self.noted, []
        for number, frame in noted:
            try:
                handlers[number](number, frame)
            except BaseException as problem:
                raised.append(problem)
        if raised:
            raise raised[0]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted.append((number, frame))
        self._on_signal()

    def _restore(self) -> None:
        """Put all handlers back, also when one that is back already raises something meanwhile, which is raised in the end."""
        raised: BaseException | None = None
        while self._handlers:
            try:
                number, handler = next(iter(self._handlers.items()))
                _signal.signal(number, handler)
                self._handlers.pop(number, None)
            except BaseException as problem:
                raised = problem
        if raised is not None:
            raise raised
