"""How long a fault keeps workers from their steps, by the records of these."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from killing.faults import Kind, Strike
from killing.records import ProcessSteps

_WINDOW = 2.0
"""Seconds after a fault in which a standstill begins."""


def standstills(processes: Sequence[ProcessSteps], strike: Strike, strikes: Sequence[Strike]) -> list[float]:
    """Of each process that nothing has befallen: the longest time between two steps, less the usual one, until the next of `strikes`."""
    until = min(strike.until + _WINDOW, following(strike, strikes))
    struck = {each.pid for each in strikes if each.at < until}
    found = [longest(each.ends, strike.at, until) for each in processes if each.pid not in struck]
    return [each for each in found if each is not None]


def following(strike: Strike, strikes: Sequence[Strike]) -> float:
    """When the next fault comes that is not one of a pair."""
    return min((each.at for each in strikes if each.at > strike.at and each.alone), default=math.inf)


def longest(ends: Sequence[float], since: float, until: float) -> float | None:
    """The longest time between two steps that has a part after `since`, as far as it is before `until`; None if there were not two."""
    gaps = [min(after, until) - before for before, after in pairwise(ends) if before < until and after > since]
    usual = [after - before for before, after in pairwise(ends)]
    return max(gaps) - statistics.median(usual) if gaps and ends[0] < since else None


def full_speed(processes: Sequence[ProcessSteps], strike: Strike, strikes: Sequence[Strike]) -> float | None:
    """Seconds from the end of the fault until as many workers have taken a step as took steps before it.

    None if they never have, or if one was stopped or held before.
    """
    lasting = [each for each in strikes if each.kind in (Kind.STOP, Kind.FREEZE, Kind.HOLD)]
    ended = {each.pid: each.at for each in strikes if each.kind in (Kind.KILL, Kind.FREEZE, Kind.TERM)}
    steps = sorted((end, each.pid) for each in processes for end in each.ends if end > strike.until)
    seen: set[int] = set()
    for end, pid in steps:
        seen.add(pid)
        if sum(ended.get(each, end) >= end for each in seen) >= strike.present:
            return end - strike.until if end < following(strike, lasting) else None
    return None


def shown(values: Sequence[float]) -> list[str]:
    """The cells of a table: the median and the worst."""
    return [f"{statistics.median(values):.3f}", f"{max(values):.3f}"] if values else ["", ""]
