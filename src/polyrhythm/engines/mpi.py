"""MPI: each worker is a process that mpirun or mpiexec starts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.engines.addresses import outward_address
from polyrhythm.engines.commands import ORDER, TASK, CommandTasks
from polyrhythm.engines.engine import EngineRuntime
from polyrhythm.engines.protocol import TaskOrder, Tasks


@dataclass(frozen=True, slots=True)
class Mpi(EngineRuntime):
    """Runs by MPI's launcher, which places the workers by its own `options`: ("--hostfile", "hosts", "--map-by", "node").

    `launcher` is the command that starts them: mpirun, mpiexec of any implementation. MPI carries none of the traffic. If a
    worker is lost, MPI ends the others, and all are started again up to `restarts` times, to continue from the newest checkpoint. Several
    hosts need `driver`, an address of this host that they can reach, where that is not the one of its default route.
    """

    launcher: str = "mpirun"
    options: Sequence[str] = ()
    driver: str | None = None
    restarts: int = 3
    startup: float = 120.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "mpi"

    def driver_address(self) -> str:
        """Where workers find this process."""
        return self.driver or outward_address()

    def start(self, order: TaskOrder) -> Tasks:
        """Have the launcher start all workers."""
        exported = ("-x", ORDER) if _is_open_mpi(self.launcher) else ()  # others pass the whole environment on
        command = [self.launcher, "-n", str(order.workers), *exported, *self.options, *TASK]
        return CommandTasks(command, order, {"OMP_NUM_THREADS": str(self.threads)})


def _is_open_mpi(launcher: str) -> bool:
    try:
        return b"Open MPI" in subprocess.run([launcher, "--version"], capture_output=True, check=False).stdout
    except OSError:
        return False  # refused when the command is begun
