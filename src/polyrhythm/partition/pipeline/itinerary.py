"""What each seat sends in one step of routed micro-batches, in its order: receivers know it, so that messages need no tags."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from polyrhythm.partition.pipeline.routed import RoutedLists, RoutedPass
from polyrhythm.partition.pipeline.routes import Paths, Sample, StageSeat


class Content(Enum):
    """What a parcel has."""

    INPUTS = "inputs"
    TARGETS = "targets"
    VALUE = "value"
    GRADIENT = "gradient"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class RoutedMessage:
    """What is sent for a micro-batch to the seat of `stage` on its path.

    Results are told to each `stage` of a replica, by the replica of the last stage that has them: `sample` is both numbers.
    """

    content: Content
    sample: Sample
    stage: int

    def name(self, kind: str, number: int) -> Hashable:
        """Its name as a message for the batches of that kind and number."""
        return kind, number, self


@dataclass(frozen=True, slots=True)
class Itinerary:
    """The `paths` of a step and the `lists` of its seats, of which none is of those `lost`."""

    paths: Paths
    lists: RoutedLists
    stages: int
    replicas: int
    lost: frozenset[StageSeat] = frozenset()

    def sent(self, seat: StageSeat) -> Iterator[tuple[StageSeat, RoutedMessage]]:
        """What a seat sends, and to which."""
        yield from self.given(seat)
        for each in self.lists.get(seat, ()):
            yield from self._passed(each)
        yield from self.results(seat)

    def given(self, seat: StageSeat) -> Iterator[tuple[StageSeat, RoutedMessage]]:
        """The parts of its own batch that a seat sends to other replicas: inputs to the first stage, targets to the last."""
        last, replica = self.stages - 1, seat[1]
        gives = [self.giver(replica, stage) == seat for stage in range(self.stages)]
        for sample, path in self._of(replica):
            if gives[0] and path[0] != replica:
                yield (0, path[0]), RoutedMessage(Content.INPUTS, sample, 0)
            if gives[last] and path[last] != replica:
                yield (last, path[last]), RoutedMessage(Content.TARGETS, sample, last)

    def giver(self, replica: int, stage: int) -> StageSeat:
        """The seat that gives parts of a replica's batch for a stage: its own, or another that has the same batch."""
        return next(seat for seat in ((each % self.stages, replica) for each in range(stage, stage + self.stages)) if seat not in self.lost)

    def results(self, seat: StageSeat) -> Iterator[tuple[StageSeat, RoutedMessage]]:
        """What a seat of the last stage tells all of those whose micro-batches it had."""
        if seat[0] + 1 == self.stages:
            for giver in range(self.replicas):
                if self.done(seat, giver):
                    yield from (
                        ((stage, giver), RoutedMessage(Content.RESULT, (giver, seat[1]), stage))
                        for stage in range(self.stages)
                        if (stage, giver) != seat and (stage, giver) not in self.lost
                    )

    def done(self, seat: StageSeat, giver: int) -> list[int]:
        """The micro-batches of a replica that a seat has, in their order."""
        return sorted(each.sample[1] for each in self.lists.get(seat, ()) if each.sample[0] == giver and not each.backward)

    def _passed(self, each: RoutedPass) -> Iterator[tuple[StageSeat, RoutedMessage]]:
        to = each.stage + (-1 if each.backward else 1)
        if 0 <= to < self.stages:
            yield (to, self.paths[each.sample][to]), RoutedMessage(Content.GRADIENT if each.backward else Content.VALUE, each.sample, to)

    def _of(self, replica: int) -> Iterator[tuple[Sample, Sequence[int]]]:
        return ((sample, path) for sample, path in sorted(self.paths.items()) if sample[0] == replica)

    def forward_only(self) -> Itinerary:
        """The same without backward passes."""
        lists: Mapping[StageSeat, Sequence[RoutedPass]] = {
            seat: [each for each in own if not each.backward] for seat, own in self.lists.items()
        }
        return Itinerary(self.paths, lists, self.stages, self.replicas, self.lost)
