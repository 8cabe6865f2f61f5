"""How long each worker is busy or waits within its replica in one training step: computing, lines of the cut, and a pipeline's bubbles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.partition.explained import RankStep
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.pipeline import Durations, Pipelined, StageLink, in_flight_for, timetable, unrolled
from polyrhythm.tools.layouts.axis_times import AxisTimes
from polyrhythm.tools.layouts.exchange_trial import Link
from polyrhythm.tools.layouts.machines import Flow, Machines

_UNROLLED = 4
"""Steps of a late pipeline between two lengths that are compared."""
_SENDS = "send_to"


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The seconds of a worker in a step: `computing`, `along` the axes within its replica, and `waiting` for other stages."""

    computing: float
    along: float
    waiting: float = 0.0

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.computing + self.along + self.waiting


@dataclass(frozen=True)
class Spans:
    """The spans of the workers of a layout, by rank: each with its step, and with the operations of its `forward` pass in a pipeline."""

    layout: MeshLayout
    steps: Sequence[RankStep]
    forward: Sequence[int]
    machines: Machines

    def spans(self) -> list[StepSpan]:
        """That of each worker."""
        found = [StepSpan(self._computing(rank), self._along(rank)) for rank in range(self.machines.workers)]
        pipelined = self.layout.cut.pipeline
        if pipelined is not None and len(self._groups(pipelined.axis)[0]) > 1:
            links = self._stage_links(pipelined)
            for members in self._groups(pipelined.axis):
                for rank, seconds in zip(members, self._staged(pipelined, members, links), strict=True):
                    own = found[rank]
                    found[rank] = StepSpan(own.computing, own.along, max(0.0, seconds - own.computing - own.along))
        return found

    def links(self) -> dict[str, dict[Link, float]]:
        """The bytes of a step on each line, by axis."""
        found: dict[str, dict[Link, float]] = {}
        for axis in self.steps[0].sent:
            groups = self._groups(axis)
            if len(groups[0]) == 1:
                continue
            sent: dict[Link, float] = {}
            for link, nbytes in AxisTimes(groups, self.machines).links(_collective(self.steps[groups[0][0]].sent[axis])).items():
                sent[link] = sent.get(link, 0) + nbytes
            for members in groups:
                for rank in members:
                    for target, nbytes in self.steps[rank].sent_to[axis].items():
                        link = self.machines.link(rank, members[target])
                        sent[link] = sent.get(link, 0) + nbytes
            found[axis] = sent
        return found

    def in_flight(self, pipelined: Pipelined) -> tuple[int, ...]:
        """The micro-batches that each rank of a pipeline needs under way so that latencies do not keep it waiting, of those of a batch."""
        durations = [self._durations(pipelined, rank) for rank in self._groups(pipelined.axis)[0]]
        return tuple(min(pipelined.micro_batches, each) for each in in_flight_for(durations, self._stage_links(pipelined)))

    def _computing(self, rank: int) -> float:
        return self.machines.seconds(rank, self.steps[rank].flops) + self.machines.overhead(rank)

    def _along(self, rank: int) -> float:
        """The seconds of collective operations: no rank computes meanwhile. Layers of other stages are at other places."""
        pipelined, found = self.layout.cut.pipeline, 0.0
        for axis, each in self.steps[rank].sent.items():
            if sent := _collective(each):
                groups = self._groups(axis)
                if pipelined is not None and axis in self.layout.cut.axes:
                    groups = [members for members in groups if self._stage(members[0], pipelined) == self._stage(rank, pipelined)]
                found += AxisTimes(groups, self.machines).seconds(sent)
        return found

    def _stage(self, rank: int, pipelined: Pipelined) -> int:
        return self._mesh.coordinate(f"worker/{rank}", pipelined.axis)

    @cached_property
    def _mesh(self) -> WorkerMesh:
        return WorkerMesh(self.layout.mesh.axes, tuple(f"worker/{rank}" for rank in range(self.machines.workers)))

    def _groups(self, axis: str) -> list[list[int]]:
        """The ranks of each group along an axis."""
        return [[int(member.rpartition("/")[2]) for member in group.members] for group in self._mesh.groups(axis)]

    def _stage_links(self, pipelined: Pipelined) -> list[StageLink]:
        """The line between two ranks of a pipeline and the next, which all pipelines use at once; micro-batches are alike."""
        groups, found = self._groups(pipelined.axis), []
        for place in range(len(groups[0]) - 1):
            there = self._flows(pipelined, groups, place, place + 1)
            back = self._flows(pipelined, groups, place + 1, place)
            found.append(StageLink(self.machines.latency(there), self.machines.transfer(there), self.machines.transfer(back)))
        return found

    def _flows(self, pipelined: Pipelined, groups: Sequence[Sequence[int]], here: int, there: int) -> list[Flow]:
        parts = pipelined.micro_batches * pipelined.schedule.chunks
        return [
            (members[here], members[there], self.steps[members[here]].sent_to[pipelined.axis].get(there, 0) / parts) for members in groups
        ]

    def _staged(self, pipelined: Pipelined, members: Sequence[int], links: Sequence[StageLink]) -> list[float]:
        """The seconds of each rank of a pipeline from the beginning of its first action to the end of its last."""
        ranks, chunks, schedule, parts = len(members), pipelined.schedule.chunks, pipelined.schedule, pipelined.micro_batches
        durations = [self._durations(pipelined, rank) for _ in range(chunks) for rank in members]
        lines = [links[stage % ranks] if stage % ranks < ranks - 1 else links[0] for stage in range(ranks * chunks - 1)]
        if schedule.delay_of(0, ranks, parts):
            took = [
                timetable(unrolled(schedule, ranks, parts, count), chunks, durations, lines).seconds for count in (_UNROLLED, 2 * _UNROLLED)
            ]
            return [(took[1] - took[0]) / _UNROLLED + self.machines.overhead(rank) for rank in members]
        timed = timetable([schedule.actions(rank, ranks, parts) for rank in range(ranks)], chunks, durations, lines).timed
        found = []
        for place, rank in enumerate(members):
            own = [each for each in timed if each.rank == place]
            found.append(max(each.end for each in own) - min(each.start for each in own) + self.machines.overhead(rank))
        return found

    def _durations(self, pipelined: Pipelined, rank: int) -> Durations:
        """Those of a stage, of which half of the collective operations are in the forward pass."""
        step, parts = self.steps[rank], pipelined.micro_batches * pipelined.schedule.chunks
        along = self._along(rank) / 2
        forward = (self.machines.seconds(rank, self.forward[rank]) + along) / parts
        backward = (self.machines.seconds(rank, step.flops - self.forward[rank]) + along) / parts
        return Durations(forward, backward, backward / 2)


def _collective(sent: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    return {key: count for key, count in sent.items() if key[0] != _SENDS}
