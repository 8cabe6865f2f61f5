"""SLURM: each worker is a task of a job step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.launchers.addresses import outward_address
from polyrhythm.launchers.batch_script import batch_script
from polyrhythm.launchers.commands import CommandTasks, task_arguments
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.protocol import TaskOrder, Tasks
from polyrhythm.launchers.submission import Submission, WorkerCommand


@dataclass(frozen=True, slots=True)
@checked
class Slurm(EngineRuntime):
    """Runs by SLURM's srun (Yoo et al., JSSPP 2003): in the allocation of this process, else in one that srun asks for.

    `options` are those of srun: ("--nodes=2", "--partition=gpu", "--gpus-per-task=1", "--time=2:00:00"). All nodes must see the
    installation of Python at the same path. If a task is lost, the step is ended and started again, up to `restarts` times, and the run
    continues from its newest checkpoint; in a crew that changes the others do not stop, and the task starts another process. `driver` is
    an address of this host that the nodes can reach, where that is not the one of its default route. `startup` seconds include the time in
    the queue.
    """

    options: Sequence[str] = ()
    driver: str | None = None
    restarts: int = 3
    startup: float = 3600.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "slurm"

    def driver_address(self) -> str:
        """The address at which tasks reach this process."""
        return self.driver or outward_address()

    def start(self, order: TaskOrder) -> Tasks:
        """Have srun start all tasks."""
        # in a crew that changes neither a lost task nor a lost node ends the step
        end = ["--kill-on-bad-exit=0", "--wait=0", "--no-kill"] if order.changes else ["--kill-on-bad-exit=1", "--wait=30"]
        command = ["srun", f"--ntasks={order.workers}", "--export=ALL", *end, *self.options]
        return CommandTasks([*command, sys.executable, *task_arguments(order)], order, {"OMP_NUM_THREADS": str(self.threads)})

    def submission(self, job: WorkerCommand) -> Submission:
        """A batch script for sbatch, whose own options are then `options`; `driver` and `startup` do not matter."""
        return Submission(["sbatch"], batch_script(job, self.options, self.restarts, self.threads), reads=True)
