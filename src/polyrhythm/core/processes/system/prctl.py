"""The settings of a process in the kernel: the parent with which it ends, and its name."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of `parent` that made it ends, also when that was killed itself."""
    _follow(parent, signal.SIGKILL)


def end_with_parent(parent: int) -> None:
    """Have the kernel ask this process to end when the thread of `parent` that made it ends, so that it can end its own children."""
    _follow(parent, signal.SIGTERM)


def _follow(parent: int, by: signal.Signals) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before that was set
        os.kill(os.getpid(), by)


def set_name(name: str) -> None:
    """Have ps, top and py-spy show this process as `name` (its first 15 bytes)."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
