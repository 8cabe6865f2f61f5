"""The policies of `polyrhythm cluster run` and `plan` by their names."""

from __future__ import annotations

from polyrhythm.cluster import BinPack, FastestRing, FirstIn, GangPlacement, LeastAttained, SchedulerConfig
from polyrhythm.errors import unknown

PREDICTED = "predicted"
"""The policy by forecasts, which `cluster_plan` makes for its jobs."""
POLICIES = {
    "fifo": SchedulerConfig(FirstIn()),
    "las": SchedulerConfig(LeastAttained()),
    "binpack": SchedulerConfig(FirstIn(), GangPlacement(BinPack())),
    "topology": SchedulerConfig(FirstIn(), GangPlacement(FastestRing())),
}
"""First in first out with room for later jobs where they delay nobody, least attained service, and IBM's two placements of gangs."""


def policy(name: str) -> SchedulerConfig:
    """The policy of that name. Raises UnknownNameError for others."""
    if name not in POLICIES:
        raise unknown("policy", name, [*POLICIES, PREDICTED])
    return POLICIES[name]
