"""MPI: each worker is a process that mpirun or mpiexec starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.launchers.addresses import outward_address
from polyrhythm.launchers.commands import ORDER, CommandTasks, task_arguments
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.protocol import TaskOrder, Tasks
from polyrhythm.launchers.submission import SECRET, Submission, WorkerCommand, command_line


@dataclass(frozen=True, slots=True)
@checked
class Mpi(EngineRuntime):
    """Runs by MPI's launcher, which places the workers by its own `options`: ("--hostfile", "hosts", "--map-by", "node").

    `launcher` is the command that starts them: mpirun, mpiexec of any implementation. MPI carries none of the traffic. If a
    worker is lost, MPI ends the others, and all are started again up to `restarts` times, to continue from the newest checkpoint; in a crew
    that changes the others do not stop, and its task starts another process. Several hosts need `driver`, an address of this
    host that they can reach, where that is not the one of its default route.
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
        """The address at which workers reach this process."""
        return self.driver or outward_address()

    def start(self, order: TaskOrder) -> Tasks:
        """Have the launcher start all workers."""
        return CommandTasks(self._command(order.workers, ORDER, [sys.executable, *task_arguments(order)]), order, self._environment)

    def submission(self, job: WorkerCommand) -> Submission:
        """The launcher's command line; it starts nothing again after a loss. Several hosts need MASTER_ADDR, by the launcher's options."""
        return command_line(self._command(job.workers, SECRET, [sys.executable, *job.arguments]), self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.threads)}

    def _command(self, workers: int, variable: str, command: Sequence[str]) -> list[str]:
        passed = [variable, *self._environment] if _is_open_mpi(self.launcher) else []  # others pass the whole environment on
        exported = [word for name in passed for word in ("-x", name)]
        return [self.launcher, "-n", str(workers), *exported, *self.options, *command]


def _is_open_mpi(launcher: str) -> bool:
    try:
        return b"Open MPI" in subprocess.run([launcher, "--version"], capture_output=True, check=False).stdout
    except OSError:
        return False  # refused when the command is started
