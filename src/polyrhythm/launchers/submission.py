"""Starting the workers of a run without a driver: the engine gives each its rank, and it joins. `polyrhythm launch` submits, and the
modules of engines write the submissions.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from shlex import join
from shutil import which
from typing import Protocol

from polyrhythm.core.processes.system.prctl import end_with_parent
from polyrhythm.errors import CompositionError, Stopped

SECRET = "POLYRHYTHM_SECRET"
NEW_SECRET = "$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')"
"""In a shell, a random secret of 32 digits."""


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """The command of each of `workers`: Python with `arguments`, or with `again` if it is started after a loss; `name` is for people."""

    name: str
    workers: int
    arguments: Sequence[str]
    again: Sequence[str]


@dataclass(frozen=True, slots=True)
class Submission:
    """The `command` that has the engine start the workers, in an `environment` with these variables too; `text` is for people.

    If it `reads`, the text is what the command is given on its standard input.
    """

    command: Sequence[str]
    text: str
    reads: bool = False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def submit(self) -> int:
        """Run the command; its exit code. Raises CompositionError where it is not installed.

        If this process is asked to end, it asks the command to end, and waits until that has ended its workers: torchrun gives them half a
        minute.
        """
        if which(self.command[0]) is None:
            raise CompositionError(
                f"There is no command {self.command[0]!r} here: install it, or print what it would be given with --print."
            )
        environment = {**os.environ, **self.environment}
        bound = partial(end_with_parent, os.getpid())
        stdin = subprocess.PIPE if self.reads else None
        with subprocess.Popen(self.command, stdin=stdin, env=environment, preexec_fn=bound) as process:
            try:
                process.communicate(self.text.encode() if self.reads else None)
            except KeyboardInterrupt as problem:
                if isinstance(problem, Stopped):  # Ctrl-C has reached it already
                    process.send_signal(problem.number)
                process.wait()
                raise
            return process.returncode


class Launchable(Protocol):
    """An engine that starts workers without a driver."""

    def submission(self, job: WorkerCommand) -> Submission:
        """The submission that has it start the workers of `job`. Raises CompositionError for options that do not fit."""


def command_line(command: Sequence[str], environment: Mapping[str, str]) -> Submission:
    """The submission of a command that passes its environment on, with a secret that only its workers have."""
    settings = " ".join(f"{name}={value}" for name, value in environment.items())
    text = f'{SECRET}="{NEW_SECRET}" {settings} {join(command)}\n'
    return Submission(command, text, environment={SECRET: secrets.token_hex(16), **environment})
