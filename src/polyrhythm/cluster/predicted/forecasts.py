"""Forecasts: how long a job takes on some workers. `PredictedPlacement` chooses by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.cluster.cluster import Cluster
from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.cluster.placements import WorkerSlot


@dataclass(frozen=True, slots=True)
class Forecast:
    """The `seconds` that a whole job takes, and the `system` that it trains with; None where it has no choice of systems."""

    seconds: float
    system: str | None = None


class Forecaster(Protocol):
    """Predicts times of placements. It is pure: the same arguments give the same forecast."""

    def forecast(self, job: ClusterJob, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast | None:
        """The time of the whole job with workers on these slots; None where it cannot reach its target so."""


@dataclass(frozen=True, slots=True)
class StepForecaster:
    """The formula of a step: `estimate` of the job, in which its computation is divided among the workers and its bytes go around a ring.

    A job without an estimate has no forecast.
    """

    def forecast(self, job: ClusterJob, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast | None:
        """The estimate times how much longer a step takes than with all workers and a network without limits."""
        if job.estimate is None:
            return None
        quality = cluster.quality([(slot.host, slot.devices) for slot in slots])
        return Forecast(job.estimate * job.step_seconds(len(slots), quality) / job.step_compute)
