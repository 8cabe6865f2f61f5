"""The output and the warnings of a JOB in many virtual runs: kept apart from ours, and shown once.

A hundred runs of eight workers would print each line eight hundred times. Lines that differ in numbers only count as one.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

HEADING = "what is run prints (each line once, whatever its numbers; a run alone shows all):"
_NUMBER = re.compile(r"-?\d[\d.,_]*(?:e[+-]?\d+)?", re.IGNORECASE)
_LONGEST = 100
"""The largest number of different lines that are shown."""

Show = Callable[[str], None]


class JobOutput(io.TextIOBase):
    """A stream that shows each of its lines once, and none that a stream in `seen` has shown."""

    def __init__(self, show: Show, seen: set[str] | None = None) -> None:
        self.seen: set[str] = set() if seen is None else seen
        self._show = show
        self._partial = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Show the lines that `text` completes and that are new."""
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self.line(line)
        return len(text)

    def line(self, line: str) -> None:
        """Show a line, if it is new."""
        shape = _NUMBER.sub("#", line).strip()
        if shape and shape not in self.seen and len(self.seen) < _LONGEST:
            self.seen.add(shape)
            self._show(line)


@dataclass(frozen=True, slots=True)
class JobLine:
    """A line that a run in another process shows."""

    text: str


@dataclass(slots=True)
class Headed:
    """Shows lines under a heading by `show`."""

    show: Show
    headed: bool = field(default=False)

    def __call__(self, line: str) -> None:
        """Show the line; before the first one, show the heading."""
        if not self.headed:
            self.headed = True
            self.show(f"polyrhythm: {HEADING}")
        self.show(f"  {line}")


def to_stderr() -> Show:
    """A function that shows lines on the present stderr, also while that is redirected."""
    stream = sys.stderr

    def show(line: str) -> None:
        print(line, file=stream, flush=True)

    return show


@contextmanager
def kept_out(output: JobOutput) -> Iterator[None]:
    """Send everything that is printed to stdout and stderr within the block to `output`."""
    with redirect_stdout(output), redirect_stderr(output):
        yield
