"""The place from which one rank issues collectives, and where it is written what it waits for: a deadlock can then be explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Communicated
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.process_group.messages.algorithms import Algorithms
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.collectives import MessageCollectives
from polyrhythm.process_group.messages.party import Doing, Party
from polyrhythm.process_group.python_group import Collectives

T = TypeVar("T")
_POLL_SECONDS = 1e-5
"""The virtual time that a look at an unfinished collective takes: a loop of looks must come to its end."""


class Ledger:
    """What the ranks of one process have issued: of each collective, by group and number, who was first, until all have."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], tuple[int, IssuedCall]] = {}
        self._others: Counter[tuple[str, int]] = Counter()

    def compare(self, rank: int, call: IssuedCall) -> None:
        """Compare with the rank that was first. Raises RunError if it has issued another."""
        key = (call.group, call.number)
        first, its_call = self._first.setdefault(key, (rank, call))
        its_call.compare(call.signature, first, rank)
        self._others[key] += 1
        if self._others[key] == len(call.members):
            del self._first[key], self._others[key]


@dataclass(slots=True)
class Standing:
    """What a rank waits for just now, if for anything, and how many collectives of each group it has issued."""

    rank: int
    waits: IssuedCall | None = None
    counts: dict[str, int] = field(default_factory=dict)
    ended: bool = False


class Judge(Protocol):
    """Compares what ranks issue."""

    def compare(self, rank: int, call: IssuedCall) -> None:
        """Compare with the rank that was first. Raises RunError if it has issued another."""


class Unsettled(Protocol):
    """A collective whose future somebody has, and which the program has not waited for."""

    call: IssuedCall
    done: Latch

    def settle(self) -> None:
        """Wait until it is done, and complete the future."""


class Desk:
    """That of the rank whose program has `context`."""

    def __init__(self, context: WorkerContext, ledger: Judge) -> None:
        self._context = context
        self._ledger = ledger
        self.port = context.port
        self.rank = rank_of(context.port.name)
        self.standing = Standing(self.rank)
        self.unsettled: list[Unsettled] = []
        self._blocked: IssuedCall | None = None
        self._since = 0.0
        self.collectives: Callable[[Party, Algorithms], Collectives[Doing]] = MessageCollectives
        """What makes a collective that is issued here, with the algorithms of its group."""

    def issue(self, call: IssuedCall) -> None:
        """The rank issues a collective. Raises RunError if another rank of this process has issued a different one in its place."""
        self.standing.counts[call.group] = call.number
        self._ledger.compare(self.rank, call)

    def record(self, call: IssuedCall, nbytes: int, since: float) -> None:
        """The rank has done `call`, which it issued at `since`, and has sent `nbytes` for it."""
        now = self.port.now()
        waited = now - max(since, self._since) if self._blocked is call else 0.0
        self._context.record(Communicated(now, self.port.name, call.kind, call.of, call.axis, call.where, nbytes, now - since, waited))

    def block(self, call: IssuedCall) -> None:
        """The program waits for `call` from now on: what it has computed before is charged."""
        self._blocked, self._since = call, self.port.now()

    def begin(self, doing: Coroutine[Effect[Any], Any, None]) -> None:
        """Start it after what was computed so far; the program continues."""
        try:
            self._context.perform(_spawned(self, doing))
        except BaseException:
            doing.close()
            raise

    def wait(self, latch: Latch, call: IssuedCall, seconds: float = 0.0) -> None:
        """Wait until the latch of `call` is open, or until so many seconds have passed, if they are given."""
        self.perform(_opened_within(self, latch, call, seconds) if seconds > 0 else _opened(self, latch, call), call)

    def settle(self, enough: Callable[[], bool]) -> None:
        """Complete the futures of what was issued here, each when it is done, until it is `enough` or none is left."""
        while self.unsettled and not enough():
            if not any(each.done.is_open for each in self.unsettled):
                self.perform(_one_opened(self, [each.done for each in self.unsettled]), self.unsettled[0].call)
            for each in [each for each in self.unsettled if each.done.is_open]:
                each.settle()

    def look(self) -> None:
        """Let some time pass for a look at something unfinished."""
        self._context.perform(_passed(self))

    def perform(self, doing: Coroutine[Effect[Any], Any, T], call: IssuedCall) -> T:
        """Wait for it, which is `call`."""
        before, self.standing.waits = self.standing.waits, call
        result = self._context.perform(doing)
        self.standing.waits = before
        return result


async def _spawned(desk: Desk, doing: Coroutine[Effect[Any], Any, None]) -> None:
    await desk.port.spawn("collective", doing)


async def _opened(desk: Desk, latch: Latch, call: IssuedCall) -> None:
    desk.block(call)
    await desk.port.wait(latch)


async def _opened_within(desk: Desk, latch: Latch, call: IssuedCall, seconds: float) -> None:
    desk.block(call)
    either = Latch()
    latch.when_open(either.open)
    await desk.port.spawn("timeout", _expired(desk, either, seconds))
    await desk.port.wait(either)


async def _one_opened(desk: Desk, latches: list[Latch]) -> None:
    one = Latch()
    for latch in latches:
        latch.when_open(one.open)
    await desk.port.wait(one)


async def _expired(desk: Desk, either: Latch, seconds: float) -> None:
    await desk.port.sleep(seconds)
    if not either.is_open:
        either.open()


async def _passed(desk: Desk) -> None:
    await desk.port.sleep(_POLL_SECONDS)


def explained(ranks: Mapping[int, Standing]) -> str:
    """What each rank waits for, and for whom, in a sentence; "" where none waits."""
    return "; ".join(_wait(each, each.waits, ranks) for each in ranks.values() if each.waits is not None)


def _wait(one: Standing, call: IssuedCall, ranks: Mapping[int, Standing]) -> str:
    others = [ranks[rank] for rank in call.ranks if rank != one.rank and rank in ranks]
    behind = [other for other in others if other.counts.get(call.group, 0) < call.number]
    whom = f", to which {_names(behind)} not come" if call.collective and behind else ""
    return f"rank {one.rank} waits in {call.what} at {call.where}{whom}"


def _names(ranks: list[Standing]) -> str:
    shown = ", ".join(f"{each.rank}{' (ended)' if each.ended else ''}" for each in ranks)
    return f"rank{'s' * (len(ranks) > 1)} {shown} ha{'ve' if len(ranks) > 1 else 's'}"
