"""How the hosts of a cluster are reached, and how long one is waited for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class HostSettings:
    """How hosts are reached: by `reach`, such as "ssh {host}", with `python` there; without, all are parts of this machine.

    A host from which no beat comes for three times `interval` seconds is lost. Records and logs are in `out`, a directory that all hosts
    see. A job whose workers fail more than `restarts` times each has failed.
    """

    out: Path
    reach: str | None = None
    python: str = sys.executable
    interval: float = 2.0
    restarts: int = 3

    def __post_init__(self) -> None:
        if self.reach is not None and "{host}" not in self.reach:
            raise CompositionError(f"reach={self.reach!r} does not say which host: write {{host}} where its name belongs.")
        if not self.interval > 0 or self.restarts < 0:
            raise CompositionError(
                f"interval={self.interval} and restarts={self.restarts} cannot be: give more than zero, and zero or more."
            )

    @property
    def remote(self) -> bool:
        """True where hosts are other machines than this one."""
        return self.reach is not None
