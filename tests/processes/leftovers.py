"""What processes leave behind."""

import time
from collections.abc import Callable
from pathlib import Path


def descendants(root: int) -> set[int]:
    """All processes below `root`."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, edge = set(), {root}
    while edge:
        edge = {process for process, parent in parents.items() if parent in edge}
        found |= edge
    return found


def soon(condition: Callable[[], bool]) -> bool:
    """Whether `condition` comes to hold within some seconds; others may be at work on this machine too."""
    deadline = time.monotonic() + 15
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
