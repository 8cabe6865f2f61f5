"""A process of one thread that imports modules and is forked: `ForkClient` and the forks of ranks start one each, and end it alike."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from polyrhythm.core.processes.spawn.job_spec import module_path

_END_SECONDS = 5.0
# also in the libraries that make a pool of threads when they are loaded: a process with more than one cannot be forked safely
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def started(module: str, theirs: socket.socket, *settings: object) -> subprocess.Popen[bytes]:
    """The process that runs `main` of `module`, at the other end of the socket `theirs`, which is closed here.

    `main` is given the descriptor, the number of this process, whether it is to end with it, and the `settings`.
    """
    # the kernel's parent-death signal follows the thread that forked, and only the main one lives as long as the process
    bound = threading.current_thread() is threading.main_thread()
    given = ", ".join(map(repr, (theirs.fileno(), os.getpid(), bound, *settings)))
    code = f"import sys; sys.path[:] = {module_path()!r}; from {module} import main; main({given})"
    with theirs:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, **_ONE_THREAD},
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose socket was closed, and kill it if it does not end."""
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
