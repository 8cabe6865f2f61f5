"""What the authority over a crew that changes has a runtime do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.errors import WorkerFailed


class CrewHands(Protocol):
    """What a runtime does for the authority."""

    def hire(self, name: str) -> None:
        """Begin a new worker; it calls `CrewAuthority.arrive` when it is ready to be admitted."""

    def dismiss(self, name: str) -> None:
        """End a worker that was not admitted, without a result."""

    def hold(self, names: Sequence[str]) -> None:
        """Have each program say how many steps it has taken (`CrewAuthority.held`), and wait before it takes the next but one."""

    def settle(self, names: Sequence[str], step: int) -> None:
        """Let the programs go on to the end of `step`, where each calls `CrewAuthority.arrive`."""

    def release(self, names: Sequence[str]) -> None:
        """Let those who wait at the cut go on without a change."""

    def end(self, names: Sequence[str]) -> None:
        """Let those go on who wait until nobody takes any more steps."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call` so many seconds later, if the run is not over by then."""

    def fail(self, problem: WorkerFailed) -> None:
        """End the run."""

    def change(self, change: ViewChange) -> None:
        """Notify everybody of the next view: those of both views, newcomers and servers; those who leave too, unless they are lost."""
