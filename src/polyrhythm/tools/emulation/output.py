"""The hosts' output, line by line as it comes."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from dataclasses import dataclass, field

Show = Callable[[int, str, str], None]
"""Takes a line: the host, "stdout" or "stderr", and the text without its end."""

_AT_ONCE = 65536


@dataclass(slots=True)
class OutputStream:
    """One output of one host, and the part of its last line that has been read so far."""

    descriptor: int
    host: int
    name: str
    partial: bytearray = field(default_factory=bytearray)


class OutputReader:
    """Reads streams and shows their lines as they come. A line without an end is shown when its stream ends."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._selector = selectors.DefaultSelector()

    def follow(self, descriptor: int, host: int, name: str) -> None:
        """Read `descriptor` from now on; it is closed when it ends, or with `close`."""
        self._selector.register(descriptor, selectors.EVENT_READ, OutputStream(descriptor, host, name))

    @property
    def open(self) -> bool:
        """True if any stream is still open."""
        return bool(self._selector.get_map())

    def read(self, seconds: float) -> None:
        """Show the lines that arrive within `seconds`; returns after the first."""
        for key, _ in self._selector.select(seconds):
            self._read(key.data)

    def close(self) -> None:
        """Show what is left, and close all streams."""
        for key in list(self._selector.get_map().values()):
            self._end(key.data)
        self._selector.close()

    def _read(self, stream: OutputStream) -> None:
        data = os.read(stream.descriptor, _AT_ONCE)
        if not data:
            self._end(stream)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            stream.partial += line
            self._show_line(stream)
        stream.partial += rest
        if len(stream.partial) > _AT_ONCE:
            self._show_line(stream)

    def _end(self, stream: OutputStream) -> None:
        if stream.partial:
            self._show_line(stream)
        self._selector.unregister(stream.descriptor)
        os.close(stream.descriptor)

    def _show_line(self, stream: OutputStream) -> None:
        self._show(stream.host, stream.name, stream.partial.decode(errors="replace"))
        stream.partial.clear()
