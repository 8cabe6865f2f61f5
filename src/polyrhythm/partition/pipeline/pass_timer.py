"""How fast a seat works: the passes of its last step in the time in which it has not waited for others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyrhythm.partition.pipeline.mail import Mail


class PassTimer:
    """The passes of the seat with this `mail` in its last step, and the seconds that they took."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._passes = 0
        self._seconds = 0.0

    @contextmanager
    def of(self, passes: int) -> Iterator[None]:
        """Time so many passes, which are done meanwhile."""
        since, waited = self._mail.now(), self._mail.waited
        yield
        self._passes = passes
        self._seconds = self._mail.now() - since - (self._mail.waited - waited)

    @property
    def speed(self) -> float:
        """Passes in a second; 1 where there is no clock."""
        return self._passes / self._seconds if self._seconds > 0 else 1.0
