"""Real processes need Linux; the modules that are theirs are imported elsewhere too."""

from __future__ import annotations

import sys

from polyrhythm.errors import CompositionError


def require_linux(what: str, remedy: str = "use virtual time, with on=pr.Simulator(...) or --on simulator,") -> None:
    """Raise CompositionError where `what` cannot work."""
    if sys.platform != "linux":
        raise CompositionError(f"{what} needs Linux, and this is {sys.platform}: {remedy} or a Linux machine.")
