"""The outcomes that only a real server has, and what an outcome is in HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from polyrhythm.serving.requests import Dropped, Overdue, Rejected, ServingOutcome

MOVED, LOST, SHUTDOWN = "moved", "machine lost", "shutdown"
"""Reasons of drops: the plan of the machine has the session no more, the machine does not answer, the machine ends."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The model raised, or the input does not fit it: `problem` says what; `theirs` is True where the client must change its request."""

    finished: float
    problem: str
    theirs: bool = False


ServerOutcome = ServingOutcome | Failed
"""What becomes of a request of a real server: one of these, exactly once."""


def failure(finished: float, problem: Exception) -> Failed:
    """The outcome of a request for which `problem` was raised: its class, and the last line of what it says."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]  # Ray's are tracebacks, whose last line is the error
    return Failed(finished, f"{type(problem).__name__}: {lines[-1] if lines else 'it says nothing'}")


def kind_of(answer: ServerOutcome) -> str:
    """The word for an outcome in metrics and tables: ok, late, failed, rejected, or dropped with its reason."""
    if isinstance(answer, Dropped):
        return f"dropped: {answer.reason}"
    if isinstance(answer, Overdue):
        return "late"
    return type(answer).__name__.lower()


def status_of(answer: ServerOutcome) -> tuple[int, Mapping[str, str]]:
    """The HTTP status and headers: 200, 429 over the planned rate, 503 given up, 400 or 500 failed. A computed answer that is late is 200.

    Retry-After is in whole seconds, as RFC 9110 (section 10.2.3) wants it, and Retry-After-Ms beside it is exact.
    """
    if isinstance(answer, Dropped):
        return 503, {"Retry-After": "1", "X-Outcome": kind_of(answer)}
    if isinstance(answer, Rejected):
        wait = min(answer.retry_after, 3600.0)
        return 429, {"Retry-After": str(max(1, math.ceil(wait))), "Retry-After-Ms": f"{wait * 1e3:.0f}", "X-Outcome": "rejected"}
    if isinstance(answer, Failed):
        return 400 if answer.theirs else 500, {"X-Outcome": "failed"}
    return 200, {"X-Outcome": kind_of(answer)}
