"""Engines that are commands: torchrun, mpirun, srun start the tasks, each a process `python -m polyrhythm.launchers`. The modules of these
engines make `CommandTasks`, which gives tasks their order in an environment variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from shutil import which

import msgspec

from polyrhythm.core.processes.runtime.failure import exit_phrase
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.program import CommandProcess
from polyrhythm.launchers.protocol import Loss, TaskOrder

ORDER = "POLYRHYTHM_TASK"
"""The environment variable with a task's order, as JSON."""
KEEP = "keep"
"""The argument of a task that starts another process in the place of its own when that is lost (`keeper`)."""
FIRST_RANK = "POLYRHYTHM_FIRST_RANK"
"""The environment variable with the rank of the first task of a host, where its command counts from 0."""
_ENDING_SECONDS = 10.0


def task_arguments(order: TaskOrder) -> list[str]:
    """The arguments of Python for a task."""
    return ["-m", "polyrhythm.launchers", *([KEEP] if order.changes else [])]


class CommandTasks:
    """The tasks that `command` starts; if it ends before them, all are lost. Its output is this process's.

    `restarts_itself` says that the command starts lost tasks again by itself. When it is asked to end, it has `ending_seconds` to do so.
    Where the crew replaces a lost task, that starts its own process again.
    """

    def __init__(
        self,
        command: Sequence[str],
        order: TaskOrder,
        environment: Mapping[str, str],
        restarts_itself: bool = False,
        ending_seconds: float = _ENDING_SECONDS,
    ) -> None:
        if which(command[0]) is None:
            raise CompositionError(f"There is no command {command[0]!r} here: install it, or run where it is.")
        self._command = list(command)
        self._workers = order.workers
        self._environment = {**os.environ, **environment, ORDER: msgspec.json.encode(order).decode()}
        self._restarts_itself = restarts_itself
        self._kept = order.replaces
        self._ending_seconds = ending_seconds
        self._reported = False
        self._process = self._started()

    def losses(self) -> list[Loss]:
        """All tasks as one loss, when the command has ended."""
        status = self._process.status
        if status is None or self._reported:
            return []
        self._reported = True
        return [Loss(None, f"{self._command[0]} {exit_phrase(status)}")]

    def restart(self, ranks: list[int]) -> list[int]:
        """Begin the command anew, with all tasks, unless they are kept."""
        if self._kept and self._process.status is None:
            return ranks
        if not self._restarts_itself or self._process.status is not None:
            self._process.end(self._ending_seconds)
            self._process, self._reported = self._started(), False
        return list(range(self._workers))

    def close(self, seconds: float) -> None:
        """End the command when its tasks have ended, or after so many seconds."""
        self._process.wait(seconds)
        self._process.end(self._ending_seconds)

    def _started(self) -> CommandProcess:
        return CommandProcess(self._command, self._environment)
