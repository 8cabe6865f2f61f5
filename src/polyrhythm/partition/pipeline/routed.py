"""Schedules of routed micro-batches: what each replica of each stage does, fitted into the times in which it would wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.routes import Paths, Sample, StageSeat
from polyrhythm.partition.pipeline.timetable import Durations


@dataclass(frozen=True, slots=True, order=True)
class RoutedPass:
    """The forward or the backward pass of a micro-batch through a stage."""

    stage: int
    sample: Sample
    backward: bool = False


RoutedLists = Mapping[StageSeat, Sequence[RoutedPass]]
"""What each replica of each stage does, one after another."""


@dataclass(frozen=True, slots=True)
class RoutedTimetable:
    """When each pass ends, in seconds, and the list of each seat."""

    ends: Mapping[RoutedPass, float]
    lists: RoutedLists

    @property
    def seconds(self) -> float:
        """From the first pass to the end of the last."""
        return max(self.ends.values())

    def live(self, seat: StageSeat) -> int:
        """The most micro-batches whose activations a seat keeps at once."""
        kept = most = 0
        for each in self.lists[seat]:
            kept += -1 if each.backward else 1
            most = max(most, kept)
        return most


def passes_of(paths: Paths) -> dict[StageSeat, set[RoutedPass]]:
    """What each seat is to do."""
    found: dict[StageSeat, set[RoutedPass]] = {}
    for sample, path in paths.items():
        for stage, replica in enumerate(path):
            found.setdefault((stage, replica), set()).update({RoutedPass(stage, sample), RoutedPass(stage, sample, backward=True)})
    return found


def needed(each: RoutedPass, stages: int) -> Iterator[RoutedPass]:
    """The passes that come before: that of the stage before, or in a backward pass of the stage after, and its own forward pass."""
    if not each.backward:
        if each.stage:
            yield RoutedPass(each.stage - 1, each.sample)
        return
    yield RoutedPass(each.stage, each.sample)
    if each.stage + 1 < stages:
        yield RoutedPass(each.stage + 1, each.sample, backward=True)


def routed_timetable(lists: RoutedLists, paths: Paths, durations: Mapping[StageSeat, Durations] | None = None) -> RoutedTimetable:
    """When each seat does what is in its list.

    Raises CompositionError for lists that are not legal: a pass that is missing, done twice or at a seat that is not on the micro-batch's
    path, or seats that wait for each other.
    """
    for seat in {*lists, *passes_of(paths)}:
        counts, expected = Counter(lists.get(seat, ())), passes_of(paths).get(seat, set())
        if wrong := sorted({each for each in {*counts, *expected} if counts[each] != (each in expected)}):
            raise CompositionError(
                f"Seat {seat} does {wrong[0]} {counts[wrong[0]]} times: list once what is on its paths, and nothing else."
            )
    run, places = _Seats(paths, durations or {}), dict.fromkeys(lists, 0)
    going = True
    while going:
        going = False
        for seat, own in lists.items():
            while places[seat] < len(own) and run.ready(own[places[seat]]) is not None:
                run.do(seat, own[places[seat]])
                places[seat] += 1
                going = True
    if waiting := [f"{seat} with {own[places[seat]]}" for seat, own in lists.items() if places[seat] < len(own)]:
        raise CompositionError(f"The schedule stands still: {', '.join(waiting)} wait for each other.")
    return RoutedTimetable(run.ends, lists)


def fitted(paths: Paths, durations: Mapping[StageSeat, Durations] | None = None, kept: Callable[[int], int] | None = None) -> RoutedLists:
    """Lists for these paths: each seat does what it can as soon as it can, backward passes first, of the micro-batches in their order.

    A seat of stage s keeps `kept(s)` micro-batches at most, by default as many as there are: with fewer, peers of a lost stage wait longer.
    """
    most = kept or (lambda stage: len(paths))
    run, seats = _Seats(paths, durations or {}), sorted(passes_of(paths))
    lists: dict[StageSeat, list[RoutedPass]] = {seat: [] for seat in seats}
    able: dict[StageSeat, set[RoutedPass]] = {seat: set() for seat in seats}
    live = Counter[StageSeat]()
    for sample, path in paths.items():
        able[0, path[0]].add(RoutedPass(0, sample))
    while any(able.values()):
        *_, seat, each = min(
            (max(run.ready(each) or 0.0, run.free[seat]), not each.backward, each.sample[1], each.sample[0], seat, each)
            for seat, own in able.items()
            for each in own
            if each.backward or live[seat] < most(seat[0])
        )
        run.do(seat, each)
        live[seat] += -1 if each.backward else 1
        able[seat].discard(each)
        lists[seat].append(each)
        for after in _after(each, run.stages):
            able[after.stage, paths[after.sample][after.stage]].add(after)
    return lists


def _after(each: RoutedPass, stages: int) -> Iterator[RoutedPass]:
    """What can be done once this pass is."""
    if each.backward and each.stage:
        yield RoutedPass(each.stage - 1, each.sample, backward=True)
    if not each.backward:
        last = each.stage + 1 == stages
        yield RoutedPass(each.stage + (not last), each.sample, backward=last)


@dataclass
class _Seats:
    """Seats at work."""

    paths: Paths
    durations: Mapping[StageSeat, Durations]
    ends: dict[RoutedPass, float] = field(default_factory=dict)
    free: defaultdict[StageSeat, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self.stages = len(next(iter(self.paths.values())))

    def ready(self, each: RoutedPass) -> float | None:
        """When all that it needs is there; None while that is not known."""
        before = list(needed(each, self.stages))
        return max((self.ends[one] for one in before), default=0.0) if all(one in self.ends for one in before) else None

    def do(self, seat: StageSeat, each: RoutedPass) -> None:
        """Do a pass that is ready."""
        ready, durations = self.ready(each), self.durations.get(seat, Durations())
        assert ready is not None, "it was asked"
        self.ends[each] = self.free[seat] = max(self.free[seat], ready) + (durations.backward if each.backward else durations.forward)
