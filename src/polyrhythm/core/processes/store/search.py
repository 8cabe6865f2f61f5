"""The search for a store: for how long, and the error when it was in vain."""

from __future__ import annotations

import time
from typing import NoReturn

from polyrhythm.core.processes.store.dismissals import Absent, Dismissed, GivenUp, Silent, Unexpected, Unproven
from polyrhythm.errors import RunError

_PAUSE_SECONDS = (0.02, 0.25)
_ATTEMPT_SECONDS = 10.0
_UNPROVEN_SECONDS = 15.0


class StoreLookup:
    """A search for the store that is called `where` within sentences, for at most `seconds`.

    It ends sooner where this process cannot prove that it has the secret: the store drops strangers without an answer. That other
    strangers were in the way can be the reason for a while, but not for long.
    """

    def __init__(self, where: str, seconds: float) -> None:
        self._where = f"{where[:1].upper()}{where[1:]}"
        self._seconds = seconds
        self._began = time.monotonic()
        self._pause = _PAUSE_SECONDS[0]
        self._last: Dismissed = Absent("nobody listens there")
        self._unproven_since: float | None = None

    @property
    def patience(self) -> float:
        """Seconds for the next attempt."""
        return max(0.1, min(_ATTEMPT_SECONDS, self._left))

    @property
    def _left(self) -> float:
        return self._began + self._seconds - time.monotonic()

    def note(self, dismissed: Dismissed) -> None:
        """An attempt was in vain; another may not be."""
        self._last, self._unproven_since = dismissed, None

    def note_silent(self, silent: Silent) -> None:
        """An attempt was in vain, and perhaps only too short to learn what the last one did."""
        if self._unproven_since is None:
            self._last = silent

    def note_unproven(self, unproven: Unproven) -> None:
        """An attempt was in vain. Raises RunError where further ones are likely to be too."""
        now = time.monotonic()
        self._last = unproven
        self._unproven_since = self._unproven_since or now
        if now - self._unproven_since > _UNPROVEN_SECONDS:
            raise self.error() from None

    def refuse(self, unexpected: Unexpected | GivenUp) -> NoReturn:
        """Raise RunError: every further attempt would be in vain too."""
        raise RunError(f"{self._where} does not receive this process: {str(unexpected).rstrip('.')}. {unexpected.remedy}") from None

    def pause(self) -> None:
        """Wait before the next attempt. Raises RunError when the time is up."""
        if self._left <= 0:
            raise self.error() from None
        time.sleep(min(self._pause, max(0.0, self._left)))
        self._pause = min(2 * self._pause, _PAUSE_SECONDS[1])

    def error(self) -> RunError:
        """The error for a store that was not found."""
        seconds = time.monotonic() - self._began
        return RunError(
            f"{self._where} could not be reached within {seconds:.0f} seconds: {str(self._last).rstrip('.')}. {self._last.remedy}"
        )
