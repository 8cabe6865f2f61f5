"""Which job runs where: a pure decision core, the same for a simulation and for a real cluster.

A `ClusterState` takes in events; `decide` says what is to be done, by a `SchedulerConfig`; `state.done(actions, now)` is what follows.
"""

from polyrhythm.cluster.actions import Action, EvictJob, JobPending, PlaceJob, ResizeJob
from polyrhythm.cluster.cluster import Cluster, DomainLevel
from polyrhythm.cluster.decide import SchedulerConfig, decide
from polyrhythm.cluster.device_topology import DeviceTopology
from polyrhythm.cluster.devices import FirstDevices, RingDevices
from polyrhythm.cluster.events import ClusterEvent, JobEnded, JobSubmitted, PartLost, PartRestored, PartSuspected, WorkersObserved
from polyrhythm.cluster.gang import GangPlacement
from polyrhythm.cluster.hosts import Capacity, ClusterDevice, ClusterHost
from polyrhythm.cluster.jobs import ClusterJob, WorkerDemand
from polyrhythm.cluster.lines import Backfill, StrictLine
from polyrhythm.cluster.liveness import Health, LivenessRules, LivenessWatch, Probe, Vitals
from polyrhythm.cluster.nodes import BinPack, FastestRing, LeastFragmentation, SpreadNodes
from polyrhythm.cluster.orders import FirstIn, LeastAttained, ShortestRemaining
from polyrhythm.cluster.placements import JobPlacement, WorkerSlot
from polyrhythm.cluster.policies import POLICIES, policy_named
from polyrhythm.cluster.preemption import NoPreemption, Preemption
from polyrhythm.cluster.queues import Queue, Quota
from polyrhythm.cluster.site_file import load_jobs, load_site
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.cluster.transaction import Transaction
from polyrhythm.cluster.water_filling import ShareClaim, water_fill

__all__ = [
    "POLICIES",
    "Action",
    "Backfill",
    "BinPack",
    "Capacity",
    "Cluster",
    "ClusterDevice",
    "ClusterEvent",
    "ClusterHost",
    "ClusterJob",
    "ClusterState",
    "DeviceTopology",
    "DomainLevel",
    "EvictJob",
    "FastestRing",
    "FirstDevices",
    "FirstIn",
    "GangPlacement",
    "Health",
    "JobEnded",
    "JobPending",
    "JobPlacement",
    "JobRecord",
    "JobSubmitted",
    "LeastAttained",
    "LeastFragmentation",
    "LivenessRules",
    "LivenessWatch",
    "NoPreemption",
    "PartLost",
    "PartRestored",
    "PartSuspected",
    "PlaceJob",
    "Preemption",
    "Probe",
    "Queue",
    "Quota",
    "ResizeJob",
    "RingDevices",
    "SchedulerConfig",
    "ShareClaim",
    "ShortestRemaining",
    "SpreadNodes",
    "StrictLine",
    "Transaction",
    "Vitals",
    "WorkerDemand",
    "WorkerSlot",
    "WorkersObserved",
    "decide",
    "load_jobs",
    "load_site",
    "policy_named",
    "water_fill",
]
