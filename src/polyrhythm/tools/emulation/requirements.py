"""Checks that this machine and process can make the lab's hosts at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from polyrhythm.errors import CompositionError
from polyrhythm.tools.emulation.frames import MOST_HOSTS

TUN = Path("/dev/net/tun")


def require_machine() -> None:
    """Raise `CompositionError` if this process may not make namespaces or the machine has no TUN devices."""
    if sys.platform != "linux":
        raise CompositionError(f"The lab is for Linux, and this is {sys.platform}: use the simulator, or a Linux machine.")
    if os.geteuid() != 0:
        raise CompositionError("The lab creates network namespaces, which requires root: run it as root, or use the simulator.")
    if not TUN.exists():
        raise CompositionError(f"The lab needs {TUN}, which does not exist: load the module tun, or give the container that device.")


def require_sense(hosts: int, command: Sequence[str]) -> None:
    """Raise `CompositionError` for a number of hosts or a command that cannot be."""
    if not 1 <= hosts <= MOST_HOSTS:
        raise CompositionError(f"A lab of {hosts} hosts is not possible: give from 1 to {MOST_HOSTS}.")
    if not command:
        raise CompositionError("No command was given: write it after --, for example -- python train.py.")
    if shutil.which(command[0]) is None:
        raise CompositionError(f"There is no program {command[0]!r}: give one that is on the PATH, or its path.")
