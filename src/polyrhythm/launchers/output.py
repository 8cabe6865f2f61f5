"""Forwards a task's printed output to the driver, where the engine does not do so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import TextIO, cast

Print = Callable[[str, str], None]
"""Prints text on the stream of that name, "stdout" or "stderr"."""


class _Echo(TextIOBase):
    """A stream that sends each whole line, and writes it to the stream of before too."""

    def __init__(self, name: str, print: Print, before: TextIO) -> None:
        self._name = name
        self._print = print
        self._before = before
        self._line = ""

    def write(self, text: str, /) -> int:
        self._before.write(text)
        lines, newline, self._line = (self._line + text).rpartition("\n")
        if newline:
            self._print(self._name, lines + newline)
        return len(text)

    def flush(self) -> None:
        self._before.flush()

    def finish(self) -> None:
        """Send what stands after the last end of a line."""
        if self._line:
            self._print(self._name, self._line)


@contextmanager
def echoed(print: Print, wanted: bool) -> Iterator[None]:
    """Have what is printed from Python go to `print` meanwhile, if that is wanted."""
    if not wanted:
        yield
        return
    out, err = _Echo("stdout", print, sys.stdout), _Echo("stderr", print, sys.stderr)
    try:
        with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
            yield
    finally:
        out.finish()
        err.finish()
