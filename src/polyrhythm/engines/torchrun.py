"""torchrun on this host: each worker is a process of one elastic agent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.engines.commands import CommandTasks
from polyrhythm.engines.engine import EngineRuntime
from polyrhythm.engines.protocol import TaskOrder, Tasks
from polyrhythm.engines.submission import Submission, WorkerCommand, command_line


@dataclass(frozen=True, slots=True)
class Torchrun(EngineRuntime):
    """Runs by torchrun's elastic agent on this host, which starts all workers again up to `restarts` times if one is lost.

    The run then continues from its newest checkpoint. On several hosts start your script by torchrun on each of them, with `pr.join()` in
    it. All workers must have come within `startup` seconds; each computes with `threads` threads.
    """

    restarts: int = 3
    startup: float = 120.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "torchrun"

    def driver_address(self) -> str:
        """Workers are on this host."""
        return "127.0.0.1"

    def start(self, order: TaskOrder) -> Tasks:
        """Start the agent."""
        return CommandTasks(self._agent(order.workers, ["-m", "polyrhythm.engines"]), order, self._environment, restarts_itself=True)

    def submission(self, job: WorkerCommand) -> Submission:
        """The agent's command line."""
        return command_line(self._agent(job.workers, job.again), self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.threads)}

    def _agent(self, workers: int, task: Sequence[str]) -> list[str]:
        own = ["--standalone", f"--nproc-per-node={workers}", f"--max-restarts={self.restarts}"]
        return [sys.executable, "-m", "torch.distributed.run", *own, *task]
