"""What a policy is: an order of jobs, and a way of placing one. All of them are pure: the same arguments give the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polyrhythm.cluster.hosts import Capacity, ClusterHost
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.cluster.transaction import Transaction


class OrderPolicy(Protocol):
    """Which job comes first."""

    def key(self, record: JobRecord, now: float) -> tuple[float, ...]:
        """What jobs of one priority are sorted by, the least first."""

    def precedes(self, claimant: JobRecord, victim: JobRecord, now: float) -> bool:
        """True if a job that waits may take the place of one that runs, of the same queue and priority."""

    def changes(self, record: JobRecord, now: float) -> float | None:
        """The next moment at which a running job falls behind by time alone, if there is one."""


class Placer(Protocol):
    """A placement policy that knows the state which a decision is about."""

    def place(self, record: JobRecord, trial: Transaction) -> JobPlacement | None:
        """Slots for the whole gang, from `least` to all of its workers, among what is free in `trial`, which stays as it was; or None."""

    def grow(self, record: JobRecord, held: JobPlacement, trial: Transaction) -> JobPlacement | None:
        """`held`, which the job has in `trial`, and more slots, as many as there is room for, up to all of its workers; or None."""


class PlacementPolicy(Protocol):
    """Which hosts, which devices, how many workers, and with which system."""

    def prepare(self, state: ClusterState, now: float) -> Placer:
        """The placer for one decision; what depends on the whole state, such as shares of kinds of jobs, is computed here once."""


class NodePolicy(Protocol):
    """Which host is best for some workers of a job."""

    def prepare(self, state: ClusterState) -> NodeScore:
        """The score for one decision."""

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        """The levels of domains at which a place for a gang is sought, of those at which it may be, in this order."""

    def portion(self, room: int, left: int) -> int:
        """How many of the `left` workers go to a host with that much room, at a time."""


class NodeScore(Protocol):
    """The scores of hosts, the least is the best."""

    def __call__(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        """The score of a host with so much free for so many workers, all of which fit."""


class DevicePolicy(Protocol):
    """Which devices of a host."""

    def pick(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[tuple[int, ...], ...]:
        """The devices of each of `workers`, all of which fit, in the order of their ranks."""
