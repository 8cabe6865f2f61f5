"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.state import JobRecord
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class FirstIn:
    """By arrival; nobody makes way."""

    def key(self, record: JobRecord, now: float) -> tuple[float, ...]:
        """The number of its arrival."""
        return (record.sequence,)

    def precedes(self, claimant: JobRecord, victim: JobRecord, now: float) -> bool:
        """Never."""
        return False

    def changes(self, record: JobRecord, now: float) -> float | None:
        """Never."""
        return None
