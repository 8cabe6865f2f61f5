"""The process that started this one as a rank of a run: what it does when one of its processes is lost, and whether it still lives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LauncherProcess:
    """The launcher called `name`, process `pid`, which ends all others when one of its processes is lost, if it `ends_all`."""

    name: str
    ends_all: bool
    pid: int

    @property
    def gone(self) -> bool:
        """True if it has ended, so that this process has another parent."""
        return os.getppid() != self.pid


_KNOWN = (
    ("TORCHELASTIC_RUN_ID", "torchrun", True),
    ("OMPI_COMM_WORLD_RANK", "mpirun", True),
    ("PMI_RANK", "mpiexec", True),
    ("SLURM_PROCID", "srun", False),
)
"""Launchers by a variable that each sets for its processes; one that starts processes inside another's job comes first."""


def launcher_process(environment: Mapping[str, str] | None = None) -> LauncherProcess | None:
    """The launcher that has started this process, where it is one that stays until its processes end.

    None where a person or Kubernetes has started it: then its parent may be a shell that has gone.
    """
    given = os.environ if environment is None else environment
    return next((LauncherProcess(name, ends_all, os.getppid()) for variable, name, ends_all in _KNOWN if variable in given), None)
