"""The connection of this process with a Ray cluster. Signals end the program as they did before it."""

from __future__ import annotations

import os
import sys
from typing import Any

from polyrhythm.core.extras import needed
from polyrhythm.core.kernel.stopping import handlers_kept
from polyrhythm.errors import CompositionError

_NO_CRASH_REPORT = "RAY_DISABLE_FAILURE_SIGNAL_HANDLER"


def is_connected() -> bool:
    """True if this process is connected with a cluster."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def connect(extra: str, address: str | None = None, **options: Any) -> None:
    """Connect with the cluster at `address`, or with one of this host, by `ray.init` with further `options`.

    Ray takes SIGTERM for itself (2.60): at first to exit, and, when it is connected, to abort with a report of a crash. A program that has
    a handler, such as one that drains or writes a last checkpoint, has it again afterwards. Raises CompositionError where Ray is not
    installed (then with the pip `extra`) or the cluster cannot be reached, and Stopped for a signal that comes meanwhile.
    """
    ray = _imported(extra)
    with handlers_kept():
        try:
            ray.init(address=address, log_to_driver=False, **options)
        except (ConnectionError, RuntimeError, ValueError) as problem:
            raise CompositionError(f"Ray's cluster {address or 'of this host'!r} cannot be reached: {problem}") from problem


def _imported(extra: str) -> Any:
    """Ray, so that it reports no crash for a signal that comes before `handlers_kept` ends.

    It looks at the environment when it is imported. Its own processes do not inherit this: their crashes are worth a report.
    """
    if "ray" in sys.modules or _NO_CRASH_REPORT in os.environ:
        return needed("ray", extra)
    os.environ[_NO_CRASH_REPORT] = "1"
    try:
        return needed("ray", extra)
    finally:
        del os.environ[_NO_CRASH_REPORT]
