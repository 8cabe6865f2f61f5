"""Why nobody can go on where some workers take no more steps and others want one."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.kernel.agreement import listed

_REMEDY = "every worker must take equally many steps; stop together with worker.any(...), or take equally many batches."


def uneven(stopped: Mapping[str, int], going: list[str]) -> str | None:
    """The sentence, from the steps of those who have stopped and the names of those who have not; None if steps are not the reason."""
    if not stopped:
        return None
    first = next(iter(stopped))
    alike = [name for name, steps in stopped.items() if steps == stopped[first]]
    others = [name for name, steps in stopped.items() if steps != stopped[first]]
    left = f"{listed(alike)} left after {_steps(stopped[first])}"
    if going:
        return f"{left}, and {listed(going)} {'wants' if len(going) == 1 else 'want'} another: {_REMEDY}"
    if others:
        return f"{left} and {listed(others)} after {_steps(stopped[others[0]])}: {_REMEDY}"
    return None


def _steps(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"
