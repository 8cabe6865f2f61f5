"""The process of a task that starts another one in its place when it is lost, where an engine would end all tasks for one.

Engines of that kind start one for each task in a crew that changes.
"""

from __future__ import annotations

import os
import time

from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.runtime.failure import exit_phrase
from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.launchers.protocol import NO_DRIVER

_EARLY_SECONDS = 5.0
_FAILURES = 3
"""So many processes in succession may end that early; then none is started any more."""


def keep(task: str, replaces: bool) -> bool:
    """Return True in a child process, which is to be `task`, and False in this one when that has ended.

    If the child is lost, another one returns, where the crew `replaces` it. The loss is the driver's to know: the engine would end all.
    """
    keeper, early = os.getpid(), 0
    while True:
        began = time.monotonic()
        if not (child := os.fork()):
            die_with_parent(keeper)
            return True
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        early = early + 1 if time.monotonic() - began < _EARLY_SECONDS else 0
        if status in (0, NO_DRIVER) or not replaces or early == _FAILURES:
            return False
        notify(f"the process of {task} {exit_phrase(status)}; another one takes its place.")
