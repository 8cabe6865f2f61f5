"""torchrun on this host: each worker is a process of one elastic agent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from polyrhythm.engines.commands import CommandTasks
from polyrhythm.engines.engine import EngineRuntime
from polyrhythm.engines.protocol import TaskOrder, Tasks


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
        own = ["--standalone", f"--nproc-per-node={order.workers}", f"--max-restarts={self.restarts}", "-m", "polyrhythm.engines"]
        return CommandTasks(
            [sys.executable, "-m", "torch.distributed.run", *own], order, {"OMP_NUM_THREADS": str(self.threads)}, restarts_itself=True
        )
