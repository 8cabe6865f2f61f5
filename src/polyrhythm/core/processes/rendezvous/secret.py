"""The secret that the processes of a run were started with, if they were."""

from __future__ import annotations

import os

from polyrhythm.core.processes.transport.secret import derive

SECRET = "POLYRHYTHM_SECRET"


def given_secret() -> bytes | None:
    """The key that POLYRHYTHM_SECRET leads to; None where it is not set. Raises CompositionError for one that is too short."""
    text = os.environ.get(SECRET)
    return derive(text) if text else None
