"""The capacity of this host for processes, which is checked before the first of them is started."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core.units import show_bytes
from polyrhythm.errors import CompositionError

_THREADS = 2
"""The program's and the loop's, in each process."""
_NBYTES = 12_000_000
"""The bytes that a process with an empty model takes, measured; any training needs more."""
_DESCRIPTORS = 32
"""The descriptors that a launcher has open in addition to one connection to each process."""


def check(processes: int, root: Path = Path("/")) -> None:
    """Raise CompositionError if this host cannot hold `processes` of them, whatever they compute; the kernel's files are below `root`."""
    many = f"{processes:,} processes need at least"
    fewer = "start fewer workers, or let so many run in virtual time, with pr.Simulator()"
    host = Host(root)
    needed, left = processes + _DESCRIPTORS, _open_files()
    if needed > left:
        raise CompositionError(f"{many} {needed:,} open files, and {left:,.0f} are allowed: {fewer}; `ulimit -n` allows more.")
    needed, left = processes * _THREADS, host.threads()
    if needed > left:
        raise CompositionError(f"{many} {needed:,} threads, and this host allows {left:,.0f} more: {fewer}.")
    needed, left = processes * _NBYTES, host.memory()
    if needed > left:
        raise CompositionError(f"{many} {show_bytes(needed)} of memory, and this host has {show_bytes(left)} left: {fewer}.")


def _open_files() -> float:
    import resource  # here, because this package is imported where there is none, too

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if allowed == resource.RLIM_INFINITY else allowed


@dataclass(frozen=True, slots=True)
class Host:
    """The limits that the kernel reports in files below `root`; what it does not report is no limit."""

    root: Path

    def threads(self) -> float:
        """The number of threads that may still be started, by the limits of the kernel, the user and the control group."""
        import resource

        there = self._number("proc/loadavg", r"/(\d+) ", 0)
        system = min(self._number("proc/sys/kernel/pid_max"), self._number("proc/sys/kernel/threads-max")) - there
        allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        own = float("inf") if allowed == resource.RLIM_INFINITY or os.geteuid() == 0 else allowed  # root may have more
        group = self._group()
        return max(0.0, min(system, own, self._number(group / "pids.max") - self._number(group / "pids.current", default=0)))

    def memory(self) -> float:
        """Bytes that may still be had, swap included, by the kernel and the control group."""
        free = sum(self._number("proc/meminfo", rf"{kind}: +(\d+)", default) for kind, default in _FREE.items()) * 1024
        group = self._group()
        # what files have left in memory counts as used there, and is given up when somebody wants more
        cached = sum(self._number(group / "memory.stat", rf"(?m)^{kind} (\d+)", 0) for kind in ("inactive_file", "active_file"))
        used = max(0.0, self._number(group / "memory.current", default=0) - cached)
        return max(0.0, min(free, self._number(group / "memory.max") - used))

    def _group(self) -> Path:
        """The control group of this process, as a folder."""
        return Path("sys/fs/cgroup") / self._text("proc/self/cgroup").partition("0::/")[2].partition("\n")[0]

    def _number(self, path: str | Path, pattern: str = r"^(\d+)", default: float = float("inf")) -> float:
        found = re.search(pattern, self._text(path))
        return float(found[1]) if found else default

    def _text(self, path: str | Path) -> str:
        try:
            return (self.root / path).read_text()
        except OSError:
            return ""


_FREE = {"MemAvailable": float("inf"), "SwapFree": 0.0}
