"""The virtual time of an iteration: as planned, with demand paging, and without a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging.planner import MemoryPlan
from polyrhythm_reproductions.paging.trace import AccessTrace

_WARM = 3
"""Iterations after which one is like the next."""


@dataclass(frozen=True, slots=True)
@checked
class Transfers:
    """Copies between the memories: `bandwidth` in bytes a second in each direction, and `latency` seconds for each copy."""

    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.latency >= 0):
            raise CompositionError(f"{self!r} cannot copy: give a positive bandwidth, and a latency of 0 or more.")

    def seconds(self, nbytes: int) -> float:
        """The seconds of one copy."""
        return self.latency + nbytes / self.bandwidth


def unlimited_seconds(seconds: Sequence[float]) -> float:
    """An iteration whose operations take `seconds` each, where everything stays in fast memory."""
    return sum(seconds)


def planned_seconds(made: MemoryPlan, seconds: Sequence[float], transfers: Transfers) -> float:
    """An iteration by plan, after some: copies in and copies out overlap with computing, each kind one at a time.

    A block is fetched when the plan has room for it, which is when the operation before its window has ended; an operation begins
    when its blocks are there, and when what the last but one has changed is out.
    """
    trace, count = made.trace, len(made.trace.operations)
    windows = made.windows
    arrived: dict[str, float] = {}
    start, ended, incoming, outgoing, out = 0.0, 0.0, 0.0, 0.0, (0.0, 0.0)
    for number in range(_WARM * count):
        k = number % count
        start = ended if number == (_WARM - 1) * count else start
        arrived = {block: arrived[block] for block in windows[k] if block in arrived}
        for block in windows[k]:
            if block not in arrived and _comes(made, block, k):
                incoming = max(incoming, ended) + transfers.seconds(trace.sizes[block])
                arrived[block] = incoming
            arrived.setdefault(block, ended)
        operation = trace.operations[k]
        ended = max([ended, out[0], *(arrived.get(block, 0.0) for block in operation.blocks)]) + seconds[k]
        for block in operation.changed:
            if block not in made.pinned:
                outgoing = max(outgoing, ended) + transfers.seconds(trace.sizes[block])
        out = (out[1], outgoing)
    return ended - start


def _comes(made: MemoryPlan, block: str, k: int) -> bool:
    """True if the first use of a block from operation k on reads it: a block that is made there need not come from elsewhere."""
    count = len(made.trace.operations)
    for j in range(k, made.ahead[k] + 1):
        operation = made.trace.operations[j % count]
        if block in operation.reads:
            return True
        if block in operation.writes:
            return False
    return False


def demand_seconds(trace: AccessTrace, budget: int, seconds: Sequence[float], transfers: Transfers) -> float:
    """An iteration, after some, where an operation waits for the blocks that are not there, and the least recently used make room.

    What was changed is copied out before its room is used. Raises CompositionError as `plan_memory`.
    """
    resident: OrderedDict[str, bool] = OrderedDict()
    used, now, start = 0, 0.0, 0.0
    for number in range(_WARM * len(trace.operations)):
        k = number % len(trace.operations)
        start = now if number == (_WARM - 1) * len(trace.operations) else start
        operation = trace.operations[k]
        for block in operation.blocks:
            if block in resident:
                resident.move_to_end(block)
        for block in operation.blocks:
            if block in resident:
                continue
            while used + trace.sizes[block] > budget:
                victim = next((each for each in resident if each not in operation.blocks), None)
                if victim is None:
                    raise CompositionError(f"A budget of {budget} bytes is not enough for {operation.name}: give more.")
                now += transfers.seconds(trace.sizes[victim]) if resident.pop(victim) else 0.0
                used -= trace.sizes[victim]
            now += transfers.seconds(trace.sizes[block]) if block in operation.reads else 0.0
            resident[block] = False
            used += trace.sizes[block]
        now += seconds[k]
        for block in operation.changed:
            resident[block] = True
        for block in operation.frees:
            if resident.pop(block, None) is not None:
                used -= trace.sizes[block]
    return now - start
