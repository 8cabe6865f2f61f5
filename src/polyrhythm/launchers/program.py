"""A command of an engine while it runs, with its children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from polyrhythm.core.processes.system.prctl import end_with_parent


class CommandProcess:
    """`command`, started in `environment`. If it is `given` something on its standard input, that stays open until its end.

    It is asked to end when this process ends, also if that is killed.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], given: bytes = b"") -> None:
        stdin = subprocess.PIPE if given else subprocess.DEVNULL
        bound = partial(end_with_parent, os.getpid())
        self._process = subprocess.Popen(list(command), env=dict(environment), start_new_session=True, stdin=stdin, preexec_fn=bound)
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(given)
                self._process.stdin.flush()

    @property
    def status(self) -> int | None:
        """The exit status of the command; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait so many seconds for it to end by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self, seconds: float) -> None:
        """End it and its children; after so many seconds, by force."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
