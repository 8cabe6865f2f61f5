"""Whether this host can hold so many processes: asked before the first of them is started."""

from __future__ import annotations

import os
import re
from pathlib import Path

from polyrhythm.errors import CompositionError
from polyrhythm.units import show_bytes

_THREADS = 2
"""The program's and the loop's, in each process."""
_NBYTES = 12_000_000
"""What a process with an empty model has of its own, measured; any training needs more."""
_DESCRIPTORS = 32
"""What a launcher has open beside one connection to each process."""


def check(processes: int) -> None:
    """Raise CompositionError if this host cannot hold `processes` of them, whatever they compute."""
    many = f"{processes:,} processes need at least"
    fewer = "start fewer workers, or let so many run in virtual time, with pr.Simulator()"
    needed, left = processes + _DESCRIPTORS, _open_files()
    if needed > left:
        raise CompositionError(f"{many} {needed:,} open files, and {left:,.0f} are allowed: {fewer}; `ulimit -n` allows more.")
    needed, left = processes * _THREADS, _threads()
    if needed > left:
        raise CompositionError(f"{many} {needed:,} threads, and this host allows {left:,.0f} more: {fewer}.")
    needed, left = processes * _NBYTES, _memory()
    if needed > left:
        raise CompositionError(f"{many} {show_bytes(needed)} of memory, and this host has {show_bytes(left)} left: {fewer}.")


def _open_files() -> float:
    import resource  # here, because this package is imported where there is none, too

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if allowed == resource.RLIM_INFINITY else allowed


def _threads() -> float:
    """How many may still be started, by what the kernel, the user and the control group may have."""
    import resource

    there = _number("/proc/loadavg", r"/(\d+) ", 0)
    system = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max")) - there
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    own = float("inf") if allowed == resource.RLIM_INFINITY or os.geteuid() == 0 else allowed  # root may have more
    return max(0.0, min(system, own, _left_in_group("pids.max", "pids.current")))


def _memory() -> float:
    free = _number("/proc/meminfo", r"MemAvailable: +(\d+)") * 1024 + _number("/proc/meminfo", r"SwapFree: +(\d+)", 0) * 1024
    return max(0.0, min(free, _left_in_group("memory.max", "memory.current")))


def _left_in_group(most: str, current: str) -> float:
    """What the control group of this process may still have; without one, as much as there is."""
    path = Path("/sys/fs/cgroup") / _text("/proc/self/cgroup").partition("0::/")[2].strip()
    return _number(path / most) - _number(path / current, default=0)


def _number(path: str | Path, pattern: str = r"^(\d+)", default: float = float("inf")) -> float:
    """The number that `pattern` finds in a file of the kernel's; `default` where there is none."""
    found = re.search(pattern, _text(path))
    return float(found[1]) if found else default


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
