"""How long a store is sought, and what is said when it was sought in vain."""

from __future__ import annotations

import time

from polyrhythm.errors import RunError
from polyrhythm.processes.store.attempt import Dismissed

_PAUSE_SECONDS = (0.02, 0.25)
_ATTEMPT_SECONDS = 10.0
_UNPROVEN_SECONDS = 5.0


class Search:
    """For the store that is called `where` within sentences, for at most `seconds`.

    Who does not have the secret is given up sooner: the store drops strangers without a word, and other strangers may be in the way for a
    while, but not for long.
    """

    def __init__(self, where: str, seconds: float) -> None:
        self._where = f"{where[:1].upper()}{where[1:]}"
        self._seconds = seconds
        self._began = time.monotonic()
        self._pause = _PAUSE_SECONDS[0]
        self._last: Dismissed | None = None
        self._unproven_since: float | None = None

    @property
    def patience(self) -> float:
        """Seconds for the next attempt."""
        return max(0.1, min(_ATTEMPT_SECONDS, self._left))

    @property
    def _left(self) -> float:
        return self._began + self._seconds - time.monotonic()

    def note_unknown(self) -> None:
        """Nobody knows yet where the store is."""
        self._last = Dismissed("absent", "worker/0 has not told where it keeps it: it has not come, or not as far as this")

    def note(self, dismissed: Dismissed) -> None:
        """An attempt was in vain. Raises RunError where further ones would be too."""
        now = time.monotonic()
        if not (dismissed.kind == "silent" and self._unproven_since is not None):  # the last attempt may have been too short to say more
            self._last = dismissed
        if dismissed.kind == "refused":
            raise RunError(
                f"{self._where} does not receive this process: {dismissed}: start all processes with the same number of workers."
            )
        if dismissed.kind not in ("unproven", "silent"):
            self._unproven_since = None
        elif self._unproven_since is None:
            self._unproven_since = now if dismissed.kind == "unproven" else None
        elif now - self._unproven_since > _UNPROVEN_SECONDS:
            raise self._error()

    def pause(self) -> None:
        """Wait before the next attempt. Raises RunError when the time is up."""
        if self._left <= 0:
            raise self._error()
        time.sleep(min(self._pause, max(0.0, self._left)))
        self._pause = min(2 * self._pause, _PAUSE_SECONDS[1])

    def _error(self) -> RunError:
        kind, reason = (self._last.kind, str(self._last)) if self._last is not None else ("absent", "nobody listens there")
        seconds = time.monotonic() - self._began
        return RunError(f"{self._where} could not be reached within {seconds:.0f} seconds: {reason.rstrip('.')}. {_REMEDIES[kind]}")


_REMEDIES = {
    "absent": "Look whether worker/0 has started and is still alive, and start all processes with the same MASTER_ADDR and MASTER_PORT.",
    "silent": "Look whether the address is that of worker/0's host, and whether a firewall lets its port through.",
    "unproven": "One of the two does not have the secret of the other, or something else listens there: start all processes with the same "
    "POLYRHYTHM_SECRET, MASTER_ADDR and MASTER_PORT.",
    "again": "Look whether two processes were started with the same rank, or processes of an earlier run are left.",
}
