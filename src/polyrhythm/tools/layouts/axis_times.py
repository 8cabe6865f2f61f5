"""How long the operations along an axis take, and which lines they use: rounds of messages, in all groups along the axis at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.tools.layouts.exchange_trial import Link
from polyrhythm.tools.layouts.machines import Flow, Machines

_FEW_BYTES = 4096
"""Up to so many bytes a sum is one exchange of all with all (`process_group.messages.algorithms.own`)."""
_SUMS = ("all_reduce", "maximum")
_SETTLED = 4
"""Times around a ring after which its rounds are alike."""


@dataclass(frozen=True, slots=True)
class MessageRounds:
    """So many rounds, in each of which every member sends a message of `nbytes`: to the next, or to all others if they are `few`."""

    count: int
    nbytes: float
    few: bool = False

    def flows(self, groups: Sequence[Sequence[int]]) -> Iterator[Flow]:
        """The messages of one round in all groups."""
        for members in groups:
            for place, member in enumerate(members):
                others = range(1, len(members)) if self.few else (1,)
                for step in others:
                    yield member, members[(place + step) % len(members)], self.nbytes


def rounds_of(operation: str, nbytes: int, size: int) -> MessageRounds:
    """The rounds of an operation of `size` members, in which each sends `nbytes`, as `Axis` counts it."""
    if operation in _SUMS:
        whole = nbytes * size / (2 * (size - 1))
        return MessageRounds(1, whole, few=True) if whole <= _FEW_BYTES else MessageRounds(2 * (size - 1), whole / size)
    if operation in ("all_gather", "reduce_scatter"):
        return MessageRounds(size - 1, nbytes / (size - 1))
    if operation == "all_to_all":
        return MessageRounds(1, nbytes / (size - 1), few=True)
    if operation in ("broadcast", "reduce"):
        return MessageRounds((size - 1).bit_length(), nbytes * size / (size - 1))
    return MessageRounds(1, nbytes)


@dataclass(frozen=True)
class AxisTimes:
    """The seconds of operations along an axis, whose `groups` are ranks."""

    groups: Sequence[Sequence[int]]
    machines: Machines

    def seconds(self, sent: Mapping[tuple[str, int], int]) -> float:
        """The seconds of operations, one after the other, each with the bytes that a member sends, and how often there is one.

        A member sends in a round when it has received in the one before, and begins with the next operation when it has ended its own: slow
        lines of a ring are waited for in turn, and not by all in each round.
        """
        times = [0.0] * len(self.groups[0])
        for (operation, nbytes), count in sent.items():
            rounds = rounds_of(operation, nbytes, len(times))
            times = self._together(times, rounds, count) if rounds.few else self._around(times, rounds, count)
        return max(times)

    def _together(self, times: list[float], rounds: MessageRounds, count: int) -> list[float]:
        """When members have received from all others."""
        flows = list(rounds.flows(self.groups))
        return [max(times) + count * rounds.count * (self.machines.latency(flows) + self.machines.transfer(flows))] * len(times)

    def _around(self, times: list[float], rounds: MessageRounds, count: int) -> list[float]:
        """When members have ended the rounds of a ring; after a while a round takes the mean of its hops."""
        size, hops = len(times), []
        for place in range(size):
            flows = [(members[place], members[(place + 1) % size], rounds.nbytes) for members in self.groups]
            hops.append(self.machines.latency(flows) + self.machines.transfer(flows))
        many = count * rounds.count
        some = min(many, _SETTLED * size)
        for _ in range(some):
            times = [max(times[place], times[place - 1] + hops[place - 1]) for place in range(size)]
        return [each + (many - some) * sum(hops) / size for each in times]

    def links(self, sent: Mapping[tuple[str, int], int]) -> Counter[Link]:
        """The bytes of these operations on each line, of all groups."""
        found: Counter[Link] = Counter()
        for (operation, nbytes), count in sent.items():
            rounds = rounds_of(operation, nbytes, len(self.groups[0]))
            for source, target, each in rounds.flows(self.groups):
                found[self.machines.link(source, target)] += round(count * rounds.count * each)
        return found
