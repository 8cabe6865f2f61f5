"""What a decision says is to be done. Whoever carries it out, simulator or engine, does it in the order given."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.reasons import ChangeReason, WaitReason


@dataclass(frozen=True, slots=True)
class PlaceJob:
    """Start all workers of a job that waits."""

    placement: JobPlacement

    @property
    def job(self) -> str:
        """The job's name."""
        return self.placement.job


@dataclass(frozen=True, slots=True)
class EvictJob:
    """Stop all workers of a job, which waits again."""

    job: str
    reason: ChangeReason


@dataclass(frozen=True, slots=True)
class ResizeJob:
    """Let a running job go on with other workers: those in both placements stay as they are."""

    placement: JobPlacement
    reason: ChangeReason

    @property
    def job(self) -> str:
        """The job's name."""
        return self.placement.job


@dataclass(frozen=True, slots=True)
class JobPending:
    """A job waits, for this reason; nothing is to be done."""

    job: str
    reason: WaitReason


Action = PlaceJob | EvictJob | ResizeJob | JobPending
