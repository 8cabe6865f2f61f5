"""The processes of a test's program, wherever they are: all of them inherit a mark in their environment."""

from __future__ import annotations

import time
from pathlib import Path

MARK = "POLYRHYTHM_TEST_MARK"


def marked(mark: str) -> list[str]:
    """The command lines of the processes that have the mark."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (each / "environ").read_bytes():
                found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in found if line]  # a zombie has none


def left(mark: str, seconds: float = 20.0) -> list[str]:
    """Those that are there still after so long; none as soon as all have ended."""
    until = time.monotonic() + seconds
    while (found := marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return found
