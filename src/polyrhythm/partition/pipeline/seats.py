"""The seats of stages that have replicas: an axis along which each replica of each stage has a coordinate."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.routes import StageSeat


@dataclass(frozen=True, slots=True)
class Seats:
    """The seats of `stages` along `axis`, each with `replicas`; coordinates count stages first if they are the `outer` ones.

    `numbers` are those of the replicas in the run.
    """

    axis: Axis
    stages: int
    replicas: int
    outer: bool
    numbers: tuple[int, ...]

    def rank(self, seat: StageSeat) -> int:
        """The coordinate of a seat."""
        stage, replica = seat
        return stage * self.replicas + replica if self.outer else replica * self.stages + stage

    def seat(self, rank: int) -> StageSeat:
        """The seat at a coordinate."""
        if self.outer:
            return divmod(rank, self.replicas)
        replica, stage = divmod(rank, self.stages)
        return stage, replica

    @property
    def own(self) -> StageSeat:
        """This rank's seat."""
        return self.seat(self.axis.index)

    @property
    def every(self) -> list[StageSeat]:
        """All seats, in the order of coordinates."""
        return [self.seat(rank) for rank in range(self.axis.size)]

    def of_all(self, own: Tensor) -> tuple[tuple[float, ...], ...]:
        """The number (1,) of each seat, by stage and replica, after all have given their own."""
        every = self.axis.all_gather(own, 0, (1,) * self.axis.size).tolist()
        return tuple(tuple(every[self.rank((stage, each))] for each in range(self.replicas)) for stage in range(self.stages))
