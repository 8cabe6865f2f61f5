"""Proves that lists of actions can be done, and says when each is done: the meter of a pipeline's bubble."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.actions import Action, Actions, Backward, BackwardInput, BackwardWeight, Forward, StageGrid, StageMessage


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds that a stage needs for a micro-batch; `weight` is the part of `backward` that makes gradients of weights."""

    forward: float = 1.0
    backward: float = 2.0
    weight: float = 1.0

    def of(self, action: Action) -> float:
        """The seconds of one action."""
        return {
            Forward: self.forward,
            Backward: self.backward,
            BackwardInput: self.backward - self.weight,
            BackwardWeight: self.weight,
        }[type(action)]


@dataclass(frozen=True, slots=True)
class StageLink:
    """The line between two stages: the seconds of `transfer`, in which it is taken, and of `latency`, in which the next may follow.

    Gradients take `back` seconds of transfer, by default the same.
    """

    latency: float = 0.0
    transfer: float = 0.0
    back: float | None = None

    def taken(self, gradient: bool) -> float:
        """The seconds of transfer of a value, or of a gradient."""
        return self.transfer if self.back is None or not gradient else self.back


@dataclass(frozen=True, slots=True)
class Timed:
    """One action of a timetable, with its first and last second."""

    rank: int
    action: Action
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timetable:
    """When each rank does what."""

    ranks: int
    timed: tuple[Timed, ...]

    @property
    def seconds(self) -> float:
        """From the first action to the end of the last."""
        return max(each.end for each in self.timed)

    def busy(self, rank: int) -> float:
        """The seconds in which a rank works."""
        return sum(each.end - each.start for each in self.timed if each.rank == rank)

    @property
    def bubble(self) -> float:
        """The share of all ranks' time in which they wait."""
        return 1 - sum(map(self.busy, range(self.ranks))) / (self.ranks * self.seconds)

    def live(self, rank: int) -> int:
        """The most micro-batches whose activations a rank keeps at once."""
        kept = most = 0
        for each in self.timed:
            if each.rank == rank:
                kept += each.action.begins
                most = max(most, kept)
                kept -= each.action.ends
        return most


def timetable(
    lists: Sequence[Actions],
    chunks: int = 1,
    durations: Sequence[Durations] = (),
    links: Sequence[StageLink] = (),
    buffers: float = math.inf,
) -> Timetable:
    """The timetable of the ranks' lists, for the `durations` of each stage and the `links` between two stages.

    A message that its receiver has not used takes one of the `buffers` of the line from one rank to another; a rank whose message finds
    none waits. Raises CompositionError for lists that are not legal: a pass that is missing, done twice or before its forward pass, a
    message that nobody sends, or ranks that wait for each other.
    """
    grid = StageGrid(len(lists), chunks)
    _check_passes(grid, lists)
    run = _Run(
        grid,
        lists,
        durations or [Durations()] * grid.stages,
        links or [StageLink()] * (grid.stages - 1),
        buffers,
    )
    while any(run.go(rank) for rank in range(grid.ranks)):
        pass
    if waiting := [f"rank {rank} with {lists[rank][at]}" for rank, at in enumerate(run.at) if at < len(lists[rank])]:
        raise CompositionError(f"The schedule stands still: {', '.join(waiting)} wait for each other.")
    return Timetable(grid.ranks, tuple(run.timed))


def _check_passes(grid: StageGrid, lists: Sequence[Actions]) -> None:
    """Every stage has the same micro-batches, and each of them once forward, and once or in two parts backward."""
    micros = {action.micro for action in lists[0]}
    for rank, actions in enumerate(lists):
        seen = Counter(actions)
        for chunk in range(grid.chunks):
            for micro in micros:
                counts = tuple(seen.pop(kind(micro, chunk), 0) for kind in (Forward, Backward, BackwardInput, BackwardWeight))
                if counts not in ((1, 1, 0, 0), (1, 0, 1, 1)):
                    raise CompositionError(
                        f"Rank {rank} does micro-batch {micro} of chunk {chunk} {counts[0]} times forward and {counts[1:]} times backward, "
                        "as a whole and in parts: list each once."
                    )
        if seen:
            raise CompositionError(f"Rank {rank} does {next(iter(seen))}, and rank 0 has no such micro-batch: list the same at all ranks.")


@dataclass
class _Run:
    """Lists that are being done."""

    grid: StageGrid
    lists: Sequence[Actions]
    durations: Sequence[Durations]
    links: Sequence[StageLink]
    buffers: float
    timed: list[Timed] = field(default_factory=list)
    arrived: dict[StageMessage, float] = field(default_factory=dict)
    line_free: defaultdict[tuple[int, bool], float] = field(default_factory=lambda: defaultdict(float))
    sent: Counter[tuple[int, int]] = field(default_factory=Counter)
    used: defaultdict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    done: set[tuple[int, type[Action], int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.at = [0] * self.grid.ranks
        self.free = [0.0] * self.grid.ranks

    def go(self, rank: int) -> bool:
        """Do what a rank can do now; whether that was anything."""
        before = self.at[rank]
        while self.at[rank] < len(self.lists[rank]) and self._next(rank, self.lists[rank][self.at[rank]]):
            self.at[rank] += 1
        return self.at[rank] > before

    def _next(self, rank: int, action: Action) -> bool:
        stage = self.grid.stage(rank, action.chunk)
        needed, sent = list(self.grid.needed(rank, action)), list(self.grid.sent(rank, action))
        if any(message not in self.arrived for message in needed):
            return False
        start = max([self.free[rank], *(self.arrived[message] for message in needed)])
        for message in sent:
            line = rank, self.grid.rank(message.stage)
            if (place := self.sent[line] - self.buffers) >= 0 and line[0] != line[1]:
                if place >= len(self.used[line]):
                    return False
                start = max(start, sorted(self.used[line])[int(place)])
        self._in_order(stage, action)
        for message in needed:
            self.used[self.grid.source(message), rank].append(start)
        end = self.free[rank] = start + self.durations[stage].of(action)
        for message in sent:
            self._send(rank, stage, message, end)
        self.timed.append(Timed(rank, action, start, end))
        return True

    def _in_order(self, stage: int, action: Action) -> None:
        before = {Backward: Forward, BackwardInput: Forward, BackwardWeight: BackwardInput}.get(type(action))
        if before is not None and (stage, before, action.micro) not in self.done:
            raise CompositionError(f"Stage {stage} does {action} before its {before.__name__}: list it after.")
        self.done.add((stage, type(action), action.micro))

    def _send(self, rank: int, stage: int, message: StageMessage, end: float) -> None:
        target = self.grid.rank(message.stage)
        if target == rank:
            self.arrived[message] = end
            return
        link = self.links[min(stage, message.stage)]
        line = min(stage, message.stage), message.gradient
        self.line_free[line] = max(self.line_free[line], end) + link.taken(message.gradient)
        self.arrived[message] = self.line_free[line] + link.latency
        self.sent[rank, target] += 1
