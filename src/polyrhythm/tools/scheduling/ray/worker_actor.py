"""The actor of one worker: it starts the worker's process on its node, and waits for its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from polyrhythm.core.processes.system.prctl import die_with_parent


class WorkerActor:
    """One worker. Ray runs its methods in two threads, so that `stop` is heard while `carry` waits."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def carry(self, command: Sequence[str], environment: Mapping[str, str], log: str) -> int:
        """Run the command to its end: its exit status. The kernel ends it with this thread, which is the actor's to its own end."""
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        bound = partial(die_with_parent, os.getpid())
        # the worker is no task of Ray, whose variables would say that it belongs to a number of workers that Ray knows
        around = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        with Path(log).open("ab") as written:
            self._process = subprocess.Popen(
                list(command),
                env={**around, **environment},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=bound,
            )
        return self._process.wait()

    def stop(self) -> None:
        """Ask the worker to end."""
        if self._process is not None:
            self._process.terminate()
