"""Explains a deadlock of workers that take different numbers of steps or make different calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from polyrhythm.core.kernel.agreement import listed

_STEPS = "every worker must take the same number of steps; stop together with worker.any(...), or give all equally many batches."
_CALLS = "every worker must make the same calls in the same order, so do not make this call under `if worker.rank == ...`."


def uneven(stopped: Mapping[str, int], going: Collection[str], calling: Collection[str] = ()) -> str | None:
    """The sentence, from the steps of workers that have stopped and the names of those that have not; None if neither is the reason.

    `calling` are workers that wait in a call such as `worker.barrier()`.
    """
    over = {name: steps for name, steps in stopped.items() if name not in calling}
    if not over:
        return None
    first = next(iter(over))
    alike = [name for name, steps in over.items() if steps == over[first]]
    others = [name for name, steps in over.items() if steps != over[first]]
    left = f"{listed(alike)} finished after {_steps(over[first])}"
    wanting = [name for name in going if name not in calling]
    if wanting:
        return f"{left}, but {listed(wanting)} {'waits' if len(wanting) == 1 else 'wait'} to take another: {_STEPS}"
    if calling:
        waits = "waits" if len(calling) == 1 else "wait"
        return f"{left}, but {listed(list(calling))} {waits} in worker.barrier(), mean(), any() or broadcast(): {_CALLS}"
    if others:
        return f"{left} and {listed(others)} after {_steps(over[others[0]])}: {_STEPS}"
    return None


def _steps(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"
