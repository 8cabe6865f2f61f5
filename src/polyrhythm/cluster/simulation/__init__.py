"""Many jobs on a cluster in virtual time: the same decisions as on a real one, from a trace of jobs, with failures of hosts."""

from polyrhythm.cluster.simulation.costs import ChangeCosts
from polyrhythm.cluster.simulation.failures import HostFailures, NoFailures
from polyrhythm.cluster.simulation.results import ClusterRun, JobRun, JobSegment
from polyrhythm.cluster.simulation.simulate import World, simulate_cluster
from polyrhythm.cluster.simulation.speeds import MeasuredSpeed, PlacementSpeed
from polyrhythm.cluster.simulation.traced_job import TracedJob

__all__ = [
    "ChangeCosts",
    "ClusterRun",
    "HostFailures",
    "JobRun",
    "JobSegment",
    "MeasuredSpeed",
    "NoFailures",
    "PlacementSpeed",
    "TracedJob",
    "World",
    "simulate_cluster",
]
