"""Who adds up a number of each replica, of which all workers of the replica have the same."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core.kernel.group import Group


@dataclass(frozen=True, slots=True)
class ReplicaSums:
    """The workers of `group` add up the numbers of so many `replicas`; a worker that does not `give` its own gives zeros."""

    group: Group
    replicas: int
    gives: bool = True

    @staticmethod
    def among(group: Group) -> ReplicaSums:
        """The sums of a group with one worker of each replica."""
        return ReplicaSums(group, group.size)

    def given(self, value: Tensor) -> Tensor:
        """What this worker adds to the sum of `value`."""
        return value if self.gives else value.new_zeros(value.shape)

    def counted(self, workers: int) -> int:
        """The number of replicas in a sum to which so many of the group's workers have come."""
        return workers * self.replicas // self.group.size
