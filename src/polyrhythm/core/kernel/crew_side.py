"""The changes of a run's crew, as the program of a worker sees them. Runtimes implement it, `training.changing` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.view import ViewChange


class CrewSide(Protocol):
    """The changes of a run's crew, as the program of one worker sees them."""

    @property
    def changes(self) -> bool:
        """True if the crew may change."""

    def cut(self, clock: int) -> int | None:
        """The step after which the crew changes at all workers, because somebody joins or leaves; None while it does not.

        Called between two steps, after `clock` of them. It may wait until all workers have said how far they are. Raises ViewChanged, as
        `WorkerContext.perform` does, if a worker is lost that the others cannot continue without in this view.
        """

    def change(self) -> ViewChange | None:
        """Wait at the cut until all workers have come to it: the change that follows, or None where there is none after all.

        A newcomer calls it first, and waits until it is admitted. Raises ViewChanged as `cut` does.
        """

    def finish(self) -> bool:
        """Wait until no worker takes any more steps. False where a cut had been agreed on: come to it first, it changes nothing any more.

        Raises ViewChanged as `change` does.
        """

    def enter(self, change: ViewChange) -> None:
        """Continue in the next view: coroutines and messages of earlier ones are dropped, and agreements are counted anew."""

    def locations(self, members: Sequence[str]) -> tuple[Location, ...]:
        """The locations of these workers."""


class FixedCrew:
    """The side of a program whose crew does not change."""

    changes = False

    def cut(self, clock: int) -> None:
        """Always None: nobody joins or leaves."""
        return

    def change(self) -> NoReturn:
        """Never called: there is no cut to wait at."""
        raise AssertionError("a crew that is fixed has changed")

    def finish(self) -> bool:
        """Always True: no step is repeated."""
        return True

    def enter(self, change: ViewChange) -> NoReturn:
        """Never called: there is one view."""
        raise AssertionError("a crew that is fixed has changed")

    def locations(self, members: Sequence[str]) -> NoReturn:
        """Never called: the locations are known from the beginning."""
        raise AssertionError("a crew that is fixed has changed")
