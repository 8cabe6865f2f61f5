"""The point where a program stops when its run is asked to: after the same step as all others, with a last checkpoint written.

From `hold` on, which says how many steps the program had taken when it last looked, it waits the next time it looks, until `settle` says
after which step to stop. So nobody can come further than one step beyond what it said, and one step beyond the furthest is a step that
all can stop after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

ENDED = -1
"""Said by a program that takes no more steps."""


class StopPoint:
    """The stop point of one program. `on_stop` is called in its thread, with whether the checkpoint was kept, and does not return."""

    def __init__(self, clock: int = 0) -> None:
        self.on_stop: Callable[[bool], None] = _ignore
        self.on_end: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self.clock = clock
        """The steps that the program had taken when it looked last."""
        self._ended = False
        self._held = False
        self._step = 0
        self._failure: BaseException | None = None
        self._settled = threading.Event()

    def hold(self) -> int:
        """Have the program wait the next time it looks: the steps that it had taken the last time; ENDED where it takes no more."""
        with self._lock:
            self._held = True
            return ENDED if self._ended else self.clock

    @property
    def held(self) -> bool:
        """True if the program has been told to wait the next time it looks."""
        return self._held

    def settle(self, step: int) -> None:
        """Let the program continue up to the end of `step`."""
        self._step = step
        self._settled.set()

    def fail(self, error: BaseException) -> None:
        """Let the program no longer wait for the others: it raises `error`."""
        self._failure = error
        self._settled.set()

    def look(self, clock: int) -> int | None:
        """The step after which to stop, asked in the program's thread after `clock` steps, or None. Raises what `fail` gave."""
        with self._lock:
            self.clock = clock
            if not self._held:
                return None
        self._settled.wait()
        if self._failure is not None:
            raise self._failure
        return self._step

    def end(self) -> None:
        """Note, in the program's thread, that no step follows."""
        with self._lock:
            self._ended = True
            if not self._held:
                return
        self.on_end()


class StopVote:
    """The steps that the workers `names` had taken, and so the step after which all stop."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._said: dict[str, int] = {}

    def add(self, name: str, clock: int) -> None:
        """The worker `name` had taken so many steps, and waits after the next."""
        self._said[name] = clock

    @property
    def missing(self) -> list[str]:
        """The workers that have not said anything yet."""
        return [name for name in self._names if name not in self._said]

    @property
    def hopeless(self) -> bool:
        """True if a worker takes no more steps, so that there is none that all could stop after."""
        return ENDED in self._said.values()

    @property
    def step(self) -> int:
        """The step after which all stop, when nobody is missing."""
        return max(self._said.values()) + 1


def _ignore(kept: bool) -> None:
    return None
