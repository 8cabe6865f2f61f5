"""Queues in a tree, and the share of the cluster that each of them has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.cluster.water_filling import ShareClaim, water_fill
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown

KINDS = ("devices", "cores")
"""What quotas are counted in: jobs that need devices count as devices, all others as cores."""


@dataclass(frozen=True, slots=True)
@checked
class Quota:
    """How much of one kind a queue deserves, may use at most, and the weight by which what is left is divided."""

    deserved: int = 0
    limit: int | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        if self.deserved < 0 or self.weight < 0 or (self.limit is not None and self.limit < self.deserved):
            raise CompositionError(
                f"A quota of deserved={self.deserved}, limit={self.limit}, weight={self.weight} was given: none is below zero, and the "
                "limit is not below what is deserved."
            )


@dataclass(frozen=True, slots=True)
@checked
class Queue:
    """A queue of jobs, whose children, if it has any, divide its share.

    Examples:
        >>> Queue("vision", devices=Quota(deserved=4), parent="research").parent
        'research'
    """

    name: str
    parent: str | None = None
    devices: Quota = Quota()
    cores: Quota = Quota()

    def quota(self, kind: str) -> Quota:
        """The quota of devices or of cores."""
        return self.devices if kind == "devices" else self.cores


def check_queues(queues: Sequence[Queue]) -> None:
    """Raise `CompositionError` for names that are used twice, parents that do not exist, and circles of parents."""
    names = [queue.name for queue in queues]
    parents = {queue.name: queue.parent for queue in queues}
    for queue in queues:
        if names.count(queue.name) > 1:
            raise CompositionError(f"Two queues are called {queue.name!r}: name each differently.")
        if queue.parent is not None and queue.parent not in parents:
            raise unknown("queue", queue.parent, names)
        seen, above = {queue.name}, queue.parent
        while above is not None:
            if above in seen:
                raise CompositionError(f"The queue {queue.name!r} is below itself: give it another parent.")
            seen.add(above)
            above = parents[above]


def ancestors(queues: Sequence[Queue], name: str) -> tuple[Queue, ...]:
    """The queue of that name, its parent, and so on to the top."""
    found = {queue.name: queue for queue in queues}
    line: list[Queue] = []
    step: str | None = name
    while step is not None:
        line.append(found[step])
        step = found[step].parent
    return tuple(line)


def fair_shares(queues: Sequence[Queue], kind: str, capacity: float, demand: Mapping[str, float]) -> dict[str, int]:
    """The share of every queue of `capacity`, where queues without children want `demand`: by water-filling, from the top down."""
    below: dict[str | None, list[Queue]] = {}
    for queue in queues:
        below.setdefault(queue.parent, []).append(queue)

    def wanted(queue: Queue) -> int:
        children = below.get(queue.name, [])
        own = math.ceil(demand.get(queue.name, 0.0))
        total = own + sum(wanted(child) for child in children)
        limit = queue.quota(kind).limit
        return total if limit is None else min(total, limit)

    shares: dict[str, int] = {}

    def divide(parent: str | None, amount: int) -> None:
        children = below.get(parent, [])
        quotas = {child.name: child.quota(kind) for child in children}
        claims = [
            ShareClaim(name, wanted(child), quota.deserved, quota.weight, quota.limit)
            for child, (name, quota) in zip(children, quotas.items(), strict=True)
        ]
        for name, share in water_fill(amount, claims).items() if claims else ():
            shares[name] = share
            divide(name, share)

    divide(None, math.floor(capacity))
    return shares
