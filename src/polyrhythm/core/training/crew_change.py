"""A change of the workers of a run, as a training function hears of it.

`worker.on_change` takes functions that are called with one; the worker calls them when the crew has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.settings import shown
from polyrhythm.core.training.callers import warn_user
from polyrhythm.errors import PlainEpochsWarning, WorkloadError


@dataclass(frozen=True, slots=True)
class CrewChange:
    """The members `before` and `after` a change, in the order of ranks, and the number of its `epoch`, which counts changes.

    Of those that are there no more, `left` did so with notice, and `lost` without. `step` is the last step of `before`.
    """

    epoch: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    lost: tuple[str, ...] = ()
    step: int = 0

    @staticmethod
    def of(change: ViewChange, step: int) -> CrewChange:
        """The change of views after so many steps, as a training function hears of it."""
        return CrewChange(change.after.epoch, change.before.members, change.after.members, tuple(sorted(change.lost)), step)

    @property
    def joined(self) -> tuple[str, ...]:
        """Those who are new."""
        return tuple(name for name in self.after if name not in self.before)

    @property
    def left(self) -> tuple[str, ...]:
        """Those who have left with notice."""
        return tuple(name for name in self.before if name not in self.after and name not in self.lost)


Listener = Callable[[CrewChange], object]


class ChangeListeners:
    """The functions that a training function has given to `worker.on_change`, in order."""

    def __init__(self) -> None:
        self._all: list[Listener] = []

    def add(self, function: Any) -> None:
        """Call `function` with each change from now on. Raises WorkloadError for what cannot be called."""
        if not callable(function):
            raise WorkloadError(f"worker.on_change was given {shown(function)}, which cannot be called: give a function of one CrewChange.")
        self._all.append(function)

    def changed(self, change: CrewChange) -> None:
        """Call all with `change`; an error of one is raised as it is, with a note that names the function and the change."""
        for function in self._all:
            try:
                function(change)
            except Exception as error:
                name = getattr(function, "__qualname__", shown(function))
                error.add_note(f"It was raised in {name}, which worker.on_change was given, after change {change.epoch} of the crew.")
                raise


def warn_of_plain_epochs() -> None:
    """Warn that a loop of the user's counts epochs, in a run where workers may join in the midst of them."""
    warn_user(
        "A second pass through the same data begins in a plain loop, and workers may join this run: one that joins runs the code of all "
        "earlier epochs, without their batches. Write `for epoch in worker.epochs(n):`, which begins with the present epoch.",
        PlainEpochsWarning,
    )
