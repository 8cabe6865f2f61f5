"""Schedules of several jobs: who starts when and how, so that the sum of the times at which they end is small."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.predicted.ways import HostKinds, WayToPlace
from polyrhythm.cluster.state import JobRecord
from polyrhythm.cluster.transaction import Transaction


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A job that starts at a moment, in one way, and is predicted to end at another."""

    job: str
    way: WayToPlace
    starts: float
    ends: float
    placement: JobPlacement


@dataclass(frozen=True, slots=True)
class JointSchedule:
    """The starts of all jobs in their order, the sum of their ends, and whether no other schedule has a smaller one."""

    starts: tuple[PlannedStart, ...]
    total: float
    is_optimal: bool = False

    def start_of(self, job: str) -> PlannedStart | None:
        """The start of a job, if it has one."""
        return next((each for each in self.starts if each.job == job), None)


@dataclass(frozen=True, slots=True)
class JointProblem:
    """The jobs that wait, in the ways of each; `ends` are the predicted ends of those that run. All starts are at `now` or later.

    Jobs start in the order of a sequence, none before the one that comes before it: every schedule in which no job could start earlier
    without delaying another is one of these.
    """

    records: Sequence[JobRecord]
    ways: Mapping[str, Sequence[WayToPlace]]
    kinds: HostKinds
    trial: Transaction
    ends: Mapping[str, float]
    now: float

    def scheduled(self, sequence: Sequence[tuple[int, WayToPlace]]) -> JointSchedule | None:
        """The schedule in which jobs start in this order and way, each as soon as it can; None where one never can."""
        mark, frontier, starts = self.trial.mark(), Frontier.of(self), []
        for number, way in sequence:
            found = self.next_start(frontier, self.records[number], way)
            if found is None:
                self.trial.rollback(mark)
                return None
            start, frontier = found
            self.trial.place(start.placement)
            starts.append(start)
        self.trial.rollback(mark)
        return JointSchedule(tuple(starts), sum(start.ends for start in starts))

    def next_start(self, frontier: Frontier, record: JobRecord, way: WayToPlace) -> tuple[PlannedStart, Frontier] | None:
        """The start of one more job, and the frontier behind it; in the trial, jobs that have ended by then are gone."""
        now, ends = frontier.now, list(frontier.ends)
        while True:
            placement = self.kinds.placement(record, way, self.trial)
            if placement is not None:
                over = now + way.forecast.seconds
                heapq.heappush(ends, (over, record.job.name))
                return PlannedStart(record.job.name, way, now, over, placement), Frontier(now, tuple(ends))
            if not ends or ends[0][0] == math.inf:
                return None
            now = max(now, ends[0][0])
            while ends and ends[0][0] <= now:
                self.trial.remove(heapq.heappop(ends)[1])


@dataclass(frozen=True, slots=True)
class Frontier:
    """The moment of the last start, and the heap of the ends that come after it."""

    now: float
    ends: tuple[tuple[float, str], ...]

    @staticmethod
    def of(problem: JointProblem) -> Frontier:
        """The frontier before any start."""
        ends = [(max(end, problem.now), name) for name, end in problem.ends.items()]
        heapq.heapify(ends)
        return Frontier(problem.now, tuple(ends))


@dataclass(frozen=True, slots=True)
class ExhaustiveSearch:
    """The best schedule, by branch and bound; `nodes` bounds the starts that are tried, after which the best so far is returned.

    A branch ends where even with all hosts to itself each job that is left could not make the sum smaller than the best known.
    """

    nodes: int = 200_000

    def best(self, problem: JointProblem, known: JointSchedule | None = None) -> JointSchedule | None:
        """A schedule that is at least as good as `known`."""
        fastest = [min((way.forecast.seconds for way in problem.ways[record.job.name]), default=math.inf) for record in problem.records]
        order = sorted(range(len(problem.records)), key=lambda number: (fastest[number], number))
        left, best = self.nodes, known

        def branch(frontier: Frontier, open_jobs: Sequence[int], starts: tuple[PlannedStart, ...], total: float) -> None:
            nonlocal left, best
            if not open_jobs:
                if best is None or total < best.total - 1e-9:
                    best = JointSchedule(starts, total)
                return
            for number in open_jobs:
                record, others = problem.records[number], [other for other in open_jobs if other != number]
                for way in problem.ways[record.job.name]:
                    bound = total + sum(frontier.now + fastest[other] for other in others)
                    if best is not None and bound + frontier.now + way.forecast.seconds >= best.total - 1e-9:
                        break  # the ways that follow are slower
                    if left <= 0:
                        return
                    left -= 1
                    mark = problem.trial.mark()
                    found = problem.next_start(frontier, record, way)
                    if found is not None:
                        start, after = found
                        later = total + start.ends + sum(start.starts + fastest[other] for other in others)
                        if best is None or later < best.total - 1e-9:
                            problem.trial.place(start.placement)
                            branch(after, others, (*starts, start), total + start.ends)
                    problem.trial.rollback(mark)

        branch(Frontier.of(problem), order, (), 0.0)
        return None if best is None else JointSchedule(best.starts, best.total, is_optimal=left > 0)


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Jobs one after the other, each in the way that is best for it at some price of workers, and with at most so many of them; then
    changes, while they help.

    A change gives one job another way and another place in the order, or, where no such change helps, two jobs other ways, in their places
    or in each other's. `trials` bounds the schedules that are tried.
    """

    prices: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0)
    """Seconds that a worker-second costs, for each worker of the largest gang."""
    trials: int = 3000

    def best(self, problem: JointProblem) -> JointSchedule | None:
        """The best schedule that was found."""
        found: tuple[JointSchedule, list[tuple[int, WayToPlace]]] | None = None
        sizes = sorted({way.workers for ways in problem.ways.values() for way in ways})
        for price, most in [*((price, sizes[-1]) for price in self.prices), *((0.0, size) for size in sizes[:-1])]:
            greedy = self._greedy(problem, price, most)
            if greedy is not None and (found is None or greedy[0].total < found[0].total - 1e-9):
                found = greedy
        return None if found is None else self._improved(problem, *found)

    def _greedy(self, problem: JointProblem, price: float, most: int) -> tuple[JointSchedule, list[tuple[int, WayToPlace]]] | None:
        """At each turn the job and way with the least end plus the price of its workers; ways with more than `most` only if there is none
        with fewer."""
        workers = max(1, sum(way.workers for way in (max(ways, key=lambda w: w.workers) for ways in problem.ways.values() if ways)))
        mark, frontier, left = problem.trial.mark(), Frontier.of(problem), list(range(len(problem.records)))
        sequence: list[tuple[int, WayToPlace]] = []
        while left:
            choices: list[tuple[float, float, int, WayToPlace]] = []
            for number in left:
                record = problem.records[number]
                ways = problem.ways[record.job.name]
                for way in [way for way in ways if way.workers <= most] or ways:
                    inner = problem.trial.mark()
                    found = problem.next_start(frontier, record, way)
                    problem.trial.rollback(inner)
                    if found is not None:
                        cost = found[0].ends + price * way.work * len(left) / workers
                        choices.append((cost, found[0].ends, number, way))
            if not choices:
                problem.trial.rollback(mark)
                return None
            _, _, number, way = min(choices, key=lambda each: each[:3])
            found = problem.next_start(frontier, problem.records[number], way)
            assert found is not None, "it was just found"
            problem.trial.place(found[0].placement)
            frontier = found[1]
            sequence.append((number, way))
            left.remove(number)
        problem.trial.rollback(mark)
        schedule = problem.scheduled(sequence)
        return None if schedule is None else (schedule, sequence)

    def _improved(self, problem: JointProblem, best: JointSchedule, sequence: list[tuple[int, WayToPlace]]) -> JointSchedule:
        left, moved = self.trials, True
        while moved:
            moved = False
            for changed in chain(_changes_of_one(problem, sequence), _changes_of_two(problem, sequence)):
                if left <= 0:
                    return best
                left -= 1
                schedule = problem.scheduled(changed)
                if schedule is not None and schedule.total < best.total - 1e-9:
                    best, sequence, moved = schedule, changed, True
                    break
        return best


def _changes_of_one(problem: JointProblem, sequence: Sequence[tuple[int, WayToPlace]]) -> Iterator[list[tuple[int, WayToPlace]]]:
    """The sequences in which one job has another way, another place, or both."""
    for place, (number, _) in enumerate(sequence):
        rest = [*sequence[:place], *sequence[place + 1 :]]
        for to in range(len(sequence)):
            for way in problem.ways[problem.records[number].job.name]:
                yield [*rest[:to], (number, way), *rest[to:]]


def _changes_of_two(problem: JointProblem, sequence: Sequence[tuple[int, WayToPlace]]) -> Iterator[list[tuple[int, WayToPlace]]]:
    """The sequences in which two jobs have other ways, in their places or in each other's: one may make room for the other."""
    for (here, (one, _)), (there, (other, _)) in combinations(enumerate(sequence), 2):
        ways = (problem.ways[problem.records[number].job.name] for number in (one, other))
        for first, second in product(*ways):
            for a, b in ((here, there), (there, here)):
                changed = list(sequence)
                changed[a], changed[b] = (one, first), (other, second)
                yield changed


@dataclass(frozen=True, slots=True)
class JointSearch:
    """What a local search finds, and branch and bound from there over some thousand starts: up to five jobs it comes to its end."""

    local: LocalSearch = LocalSearch()
    rest: ExhaustiveSearch = ExhaustiveSearch(nodes=2000)

    def best(self, problem: JointProblem) -> JointSchedule | None:
        """The best schedule that was found."""
        return self.rest.best(problem, self.local.best(problem))
