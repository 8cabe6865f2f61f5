"""torchrun: each worker is a process of an elastic agent, one of which is on each host."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import split

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.addresses import outward_address
from polyrhythm.launchers.commands import CommandTasks, task_arguments
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.hosts import HostTasks, SeparateHosts
from polyrhythm.launchers.protocol import TaskOrder, Tasks
from polyrhythm.launchers.submission import Submission, WorkerCommand, command_line

_AGENT = ("-m", "torch.distributed.run")


@dataclass(frozen=True, slots=True)
@checked
class Torchrun(EngineRuntime):
    """Runs by torchrun's elastic agents, which start all workers again up to `restarts` times if one is lost.

    The run then continues from its newest checkpoint; in a crew that changes the others do not stop, and the task of the lost worker starts
    another process. Without `hosts` there is one agent, on this host. Otherwise there is one on each of
    them, started by `reach`, a command to which a line for a shell of that host is added; each gets an equal part of the workers. The
    agents meet at `endpoint`, an address of the first host, by default its port 29500; workers reach this process at `driver`, by default
    the address of its default route. Python (`python`) and checkpoints must be at the same paths on all hosts. All workers must have come
    within `startup` seconds; each computes with `threads` threads.
    """

    hosts: Sequence[str] = ()
    reach: str = "ssh {host}"
    endpoint: str | None = None
    driver: str | None = None
    python: str = sys.executable
    restarts: int = 3
    startup: float = 120.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hosts and "{host}" not in self.reach:
            raise CompositionError(f"Torchrun(reach={self.reach!r}) does not say which host: write {{host}} where its name belongs.")

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "torchrun"

    def driver_address(self) -> str:
        """The address at which workers reach this process."""
        return self.driver or (outward_address() if self.hosts else "127.0.0.1")

    def start(self, order: TaskOrder) -> Tasks:
        """Start torchrun's agents: one here, or one on each of the hosts."""
        task = task_arguments(order)
        if not self.hosts:
            return CommandTasks(self._alone(order.workers, task), order, self._environment, restarts_itself=True)
        if order.changes:
            return SeparateHosts(self._reached(), self._alone(self._share(order.workers), task), order, self._environment)
        return HostTasks(self._reached(), lambda: self._together(order.workers, task), order, self._environment)

    def submission(self, job: WorkerCommand) -> Submission:
        """The agent's command line."""
        if self.hosts:
            raise CompositionError(
                "Workers on several hosts are started for a driver only: use polyrhythm run --on torchrun, or start torchrun on each host "
                "with -m polyrhythm join."
            )
        return command_line(self._alone(job.workers, job.again), self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.threads)}

    def _reached(self) -> dict[str, list[str]]:
        return {host: [word.replace("{host}", host) for word in split(self.reach)] for host in self.hosts}

    def _share(self, workers: int) -> int:
        """The number of workers of each host."""
        if workers % len(self.hosts):
            raise CompositionError(
                f"{workers} workers cannot be divided equally among {len(self.hosts)} hosts: give a multiple of {len(self.hosts)}."
            )
        return workers // len(self.hosts)

    def _alone(self, workers: int, task: Sequence[str]) -> list[str]:
        """The command line of the only agent."""
        return [self.python, *_AGENT, "--standalone", f"--nproc-per-node={workers}", f"--max-restarts={self.restarts}", *task]

    def _together(self, workers: int, task: Sequence[str]) -> list[list[str]]:
        """The command lines of the agents of one start. The first keeps their store: by themselves they know it only by its host's name."""
        hosts, endpoint = len(self.hosts), self.endpoint or f"{self.hosts[0]}:29500"
        meeting = [f"--nnodes={hosts}", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-id={secrets.token_hex(8)}"]
        own = [f"--nproc-per-node={self._share(workers)}", f"--max-restarts={self.restarts}"]
        return [[self.python, *_AGENT, *meeting, f"--rdzv-conf=is_host={int(k == 0)}", *own, *task] for k in range(hosts)]
