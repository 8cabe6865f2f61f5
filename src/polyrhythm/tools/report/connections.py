"""The traffic of a run's connections, and those of them that are slower than the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from polyrhythm.core.kernel.events import AnyEvent, Carried
from polyrhythm.core.kernel.names import is_worker

_SLOW = 1.8
_ALIKE = 4.0
"""Connections are compared with those whose messages have up to so many times, or down to such a part, of the bytes."""
_USED = 0.25
"""Connections that carried less than this part of the usual are left out: their time is that of acknowledgements."""
_MOST_PART = 0.6
"""A machine's line is named, not a pair, if this part of its connections is slow."""
_FEW_PART = 1 / 3
"""If more of the connections are slow without a machine that they share, the network is."""

Slow = tuple[str, float, frozenset[tuple[str, str]]]
"""Where, how many times as slow as others, and the connections that it means."""


class Connections:
    """The last counts of each connection, of those on which the time that something was under way is known."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        last = {(event.actor, event.to): event for event in events if isinstance(event, Carried)}
        self.all = [each for each in last.values() if each.messages and each.nbytes]
        usual = median(each.nbytes for each in self.all) if self.all else 0
        self.timed = [each for each in self.all if each.busy > 0 and each.nbytes >= _USED * usual]

    def latency_share(self) -> float:
        """The part of the busiest connection's time that passes before the first byte of each message has come."""
        if not self.timed:
            return 0.0
        busiest = max(self.timed, key=lambda each: each.busy)
        return min(1.0, busiest.messages * busiest.latency / busiest.busy)

    def served(self, worker: str) -> float:
        """Seconds for which something was under way between a worker and servers; 0 where that is not known."""
        ends = [(each.actor, each.to, each.busy) for each in self.timed]
        return sum(busy for one, other, busy in ends if worker in (one, other) and not (is_worker(one) and is_worker(other)))

    @property
    def busiest(self) -> float:
        """Seconds for which something was under way on the busiest connection."""
        return max((each.busy for each in self.timed), default=0.0)

    def worst_of_each_sender(self, measure: Callable[[Carried], float]) -> list[Carried]:
        """The connection of each sender that has most by `measure`."""
        found: dict[str, Carried] = {}
        for each in self.all:
            if each.actor not in found or measure(each) > measure(found[each.actor]):
                found[each.actor] = each
        return list(found.values())

    def slow(self) -> list[Slow]:
        """Lines of machines, or single connections, that take far longer than others for messages of their size."""
        factors = {(each.actor, each.to): factor for each in self.timed if (factor := self._factor(each)) > _SLOW}
        found: list[Slow] = []
        left = dict(factors)
        for name in self._named(factors):
            own = frozenset(pair for pair in left if name in pair)
            if len(own) > 1:
                found.append((f"the line of {name}", median(left[pair] for pair in own), own))
                left = {pair: factor for pair, factor in left.items() if pair not in own}
        if len(left) > _FEW_PART * len(self.timed):
            left = {}
        return [*found, *((f"the link from {pair[0]} to {pair[1]}", factor, frozenset({pair})) for pair, factor in left.items())]

    def _named(self, factors: dict[tuple[str, str], float]) -> list[str]:
        """Actors most of whose connections are slow, those with most first."""
        slow = Counter(name for pair in factors for name in pair)
        whole = Counter(name for each in self.timed for name in (each.actor, each.to))
        return [name for name, count in slow.most_common() if count >= _MOST_PART * whole[name]]

    def _factor(self, one: Carried) -> float:
        """The time of a byte on it, as a multiple of that on others."""
        size = one.nbytes / one.messages
        alike = [each for each in self.timed if each is not one and 1 / _ALIKE <= each.nbytes / each.messages / size <= _ALIKE]
        times = sorted(each.busy / each.messages for each in alike)
        usual = times[len(times) // 4] if times else 0.0  # of a ring of three hosts two connections share a slow line
        return one.busy / one.messages / usual if usual else 1.0
