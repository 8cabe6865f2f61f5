"""The Linux calls that make a host: namespaces without a name, which end with their last process, and their mounts."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_NEWNS, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. A parent that ended before is for the caller to notice."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def leave_machine() -> None:
    """Give this process its own mounts, host name, System V objects and network stack, and its next child its own process numbers."""
    _check(_libc.unshare(_NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET), "unshare")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)  # nothing that is mounted here is seen outside


def furnish(name: str, hosts: str) -> None:
    """Call this host `name`; give it an /etc/hosts with the text `hosts`, a /sys that shows its devices, and separate shared memory."""
    socket.sethostname(name)
    _mount("lab", "/sys", "tmpfs")  # the text is stored there, hidden by the next mount of /sys; no file of the machine is changed
    Path("/sys/hosts").write_text(hosts, encoding="ascii")
    _mount("/sys/hosts", "/etc/hosts", None, _MS_BIND)
    _mount("sysfs", "/sys", "sysfs")
    _mount("lab", "/dev/shm", "tmpfs")


def show_own_processes() -> None:
    """Mount a /proc of this process's own numbers; for the first process of a namespace."""
    _mount("proc", "/proc", "proc")


def _mount(source: str | None, target: str, kind: str | None, flags: int = 0) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), None), f"mount on {target}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
