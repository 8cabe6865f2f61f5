"""Least attained service in two dimensions, discretised (Tiresias: Gu et al., 2019, section 3.2.2)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from polyrhythm.cluster.state import JobRecord
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
@checked
class LeastAttained:
    """By how many of `thresholds`, in device-seconds, a job has attained, and by arrival among equals. It needs to know no duration.

    A job of a lower level takes the place of one of a higher level. Levels only rise, so that two jobs cannot take each other's place for
    ever.
    """

    thresholds: tuple[float, ...] = (_HOUR, 8 * _HOUR)

    def __post_init__(self) -> None:
        if not self.thresholds or list(self.thresholds) != sorted(self.thresholds) or self.thresholds[0] <= 0:
            raise CompositionError(
                f"Thresholds of {self.thresholds} device-seconds were given: give one or more, above zero and ascending."
            )

    def key(self, record: JobRecord, now: float) -> tuple[float, ...]:
        """The level and the number of its arrival."""
        return (self.level(record, now), record.sequence)

    def level(self, record: JobRecord, now: float) -> int:
        """The number of thresholds that the job has attained; a thousandth of a second is forgiven, for the clock's rounding."""
        return bisect_right(self.thresholds, record.attained_at(now) + 1e-3 * max(record.amount, 1e-3))

    def precedes(self, claimant: JobRecord, victim: JobRecord, now: float) -> bool:
        """True if the claimant's level is lower."""
        return self.level(claimant, now) < self.level(victim, now)

    def changes(self, record: JobRecord, now: float) -> float | None:
        """When a running job attains its next threshold."""
        level = self.level(record, now)
        if record.placement is None or level == len(self.thresholds):
            return None
        return now + (self.thresholds[level] - record.attained_at(now)) / record.amount
