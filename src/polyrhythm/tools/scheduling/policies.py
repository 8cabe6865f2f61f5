"""The policies of `polyrhythm cluster run` and `plan` by their names: those of the core, and the one that needs forecasts."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.cluster import FirstIn, NoPreemption, SchedulerConfig
from polyrhythm.cluster.policies import POLICIES
from polyrhythm.cluster.predicted import Forecaster, PredictedPlacement
from polyrhythm.errors import unknown

PREDICTED = "predicted"
"""The policy by forecasts."""


def policy(name: str, forecaster: Callable[[], Forecaster]) -> SchedulerConfig:
    """The policy of that name; `forecaster` is called for the one that needs it. Raises UnknownNameError for others."""
    if name == PREDICTED:
        return SchedulerConfig(FirstIn(), PredictedPlacement(forecaster()), preemption=NoPreemption())
    if name not in POLICIES:
        raise unknown("policy", name, [*POLICIES, PREDICTED])
    return POLICIES[name]
