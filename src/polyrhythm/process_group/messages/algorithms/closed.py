"""Rings in closed form: who has what when, without the events of their messages.

A law holds times, values and bytes to those of messages: exactly where nothing is announced, as nearly as notices are short where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction, apply

Course = Sequence[tuple[str, Sequence[int]]]
"""The steps around a ring: of each its name, and the bytes of the message that each member passes on, 0 where it passes none."""


@dataclass(frozen=True, slots=True)
class RingInput:
    """What a member gives: `parts`, and the bytes of a message of an empty tensor and of a notice, without the name of the step."""

    parts: Sequence[Tensor]
    header: int
    notice: int

    def passes(self, step: str, part: Tensor) -> int:
        """The bytes of `part` on the way."""
        return self.header + len(step) + part.numel() * part.element_size()


class RingClock(Protocol):
    """When each member has passed all on around a ring, one course after another."""

    def passed(self, begins: Sequence[float], course: Course, latency: float, bandwidth: float) -> list[float]:
        """The seconds, of members that begin at the given ones, over links of `latency` and so many bytes per second."""


@dataclass(slots=True)
class FreeRing:
    """A ring in which each message leaves at once; `lines` are when those of the members are free."""

    lines: list[float]

    def passed(self, begins: Sequence[float], course: Course, latency: float, bandwidth: float) -> list[float]:
        now = list(begins)
        for _, sizes in course:
            self.lines = [max(begin, line) + nbytes / bandwidth for begin, line, nbytes in zip(now, self.lines, sizes, strict=True)]
            now = [max(now[rank], self.lines[rank - 1] + latency) for rank in range(len(now))]
        return now


@dataclass(slots=True)
class AnnouncedRing:
    """A ring in which each message leaves when its receiver has announced that it waits, by a notice of the bytes `notices`.

    `under_way` are so at once. A message goes `direction` ranks on.
    """

    lines: list[float]
    notices: Sequence[int]
    direction: int
    under_way: int

    def passed(self, begins: Sequence[float], course: Course, latency: float, bandwidth: float) -> list[float]:
        now, size = list(begins), len(begins)
        handed: list[list[float]] = []
        """When each message leaves."""
        come: list[list[float]] = []
        for step in range(len(course) + self.under_way):
            if step >= self.under_way:
                now = [max(each) for each in zip(now, handed[step - self.under_way], come[step - self.under_way], strict=True)]
            if step < len(course):
                name, sizes = course[step]
                known = [time + (notice + len(name)) / bandwidth + latency for time, notice in zip(now, self.notices, strict=True)]
                leaves, comes = list(now), list(now)
                for rank, nbytes in enumerate(sizes):
                    if nbytes:
                        to = (rank + self.direction) % size
                        leaves[rank] = max(now[rank], known[to])
                        self.lines[rank] = max(self.lines[rank], leaves[rank]) + nbytes / bandwidth
                        comes[to] = self.lines[rank] + latency
                handed.append(leaves)
                come.append(comes)
        return now


@dataclass(frozen=True, slots=True)
class RingForm:
    """The closed form of what goes around a ring in one or two courses."""

    found: Callable[[Sequence[RingInput]], Sequence[Any]]
    courses: Callable[[Sequence[RingInput]], Sequence[Course]]
    clock: Callable[[Sequence[float], Sequence[RingInput]], RingClock]
    direction: int = 0
    """How many ranks on the messages go whose receivers announce them; 0 if they do not."""

    def results(self, values: Sequence[RingInput]) -> Sequence[Any]:
        """What each has found, and the bytes that it has sent for it."""
        return [(found, nbytes) for found, (nbytes, _) in zip(self.found(values), self.traffic(values), strict=True)]

    def ends(self, begins: Sequence[float], values: Sequence[RingInput], latency: float, bandwidth: float) -> Sequence[float]:
        now, clock = begins, self.clock(begins, values)
        for course in self.courses(values):
            now = clock.passed(now, course, latency, bandwidth)
        return now

    def traffic(self, values: Sequence[RingInput]) -> Sequence[tuple[int, int]]:
        size, steps = len(values), [step for course in self.courses(values) for step in course]
        sent = [[sizes[rank] for _, sizes in steps if sizes[rank]] for rank in range(size)]
        if self.direction:
            for rank, value in enumerate(values):
                sent[rank] += [value.notice + len(name) for name, sizes in steps if sizes[(rank - self.direction) % size]]
        return [(sum(own), len(own)) for own in sent]


def summed(values: Sequence[Tensor], how: Reduction) -> Tensor:
    """The reduction of `values` from the first on."""
    return reduce(lambda total, value: apply(how.operation, total, value), values)


async def in_closed_form(party: Party, parts: Sequence[Tensor], form: RingForm) -> Any:
    """This member's result, where the runtime charges `form` in the place of messages; else None."""
    empty = Message(f"{party.topic}//{party.rank}", text=party.call.signature, tensors=(torch.empty(0),))
    notice = wire_bytes(Message(f"{party.topic}/?{party.rank}"))
    own = RingInput([part.clone() for part in parts], wire_bytes(empty), notice)
    group = Group(party.topic, party.members, party.rank)
    found = await party.port.exchange(own, party.topic, group, form)
    if found is None:
        return None
    party.tally.nbytes += found[1]
    return found[0]
