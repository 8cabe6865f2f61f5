"""Policies by name, as commands and files give them."""

from __future__ import annotations

from polyrhythm.cluster.decide import SchedulerConfig
from polyrhythm.cluster.devices import FirstDevices, RingDevices
from polyrhythm.cluster.gang import GangPlacement
from polyrhythm.cluster.lines import Backfill, StrictLine
from polyrhythm.cluster.nodes import BinPack, FastestRing, LeastFragmentation, SpreadNodes
from polyrhythm.cluster.orders import FirstIn, LeastAttained, ShortestRemaining
from polyrhythm.cluster.preemption import NoPreemption, Preemption
from polyrhythm.errors import unknown

POLICIES = {
    "strict": SchedulerConfig(FirstIn(), GangPlacement(BinPack(), FirstDevices()), StrictLine(), NoPreemption()),
    "fifo": SchedulerConfig(FirstIn(), GangPlacement(BinPack(), FirstDevices()), Backfill(), Preemption()),
    "binpack": SchedulerConfig(FirstIn(), GangPlacement(BinPack(), RingDevices()), Backfill(), Preemption()),
    "spread": SchedulerConfig(FirstIn(), GangPlacement(SpreadNodes(), RingDevices()), Backfill(), Preemption()),
    "topology": SchedulerConfig(FirstIn(), GangPlacement(FastestRing(), RingDevices()), Backfill(), Preemption()),
    "frag": SchedulerConfig(FirstIn(), GangPlacement(LeastFragmentation(), RingDevices()), Backfill(), Preemption()),
    "las": SchedulerConfig(LeastAttained(), GangPlacement(BinPack(), RingDevices()), Backfill(), Preemption()),
    "srtf": SchedulerConfig(ShortestRemaining(), GangPlacement(BinPack(), RingDevices()), Backfill(), Preemption()),
}
"""Orders and placements under a name. "strict" lets nobody pass; "srtf" must know durations; all others but "las" go by arrival."""


def policy_named(name: str) -> SchedulerConfig:
    """The policy of that name; raises `UnknownNameError`."""
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    return POLICIES[name]
