"""A worker's context among the ranks of a process group: their actors under the names worker/0, worker/1, …, with topics of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace
from torch import Tensor

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew_side import CrewSide, FixedCrew
from polyrhythm.core.kernel.effects import Effect, Schedule, ShareMemory
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.rounds import Rounds
from polyrhythm.errors import CompositionError

T = TypeVar("T")


class _Awaited:
    """An effect whose result is turned into another."""

    def __init__(self, effect: Effect[Any] | None, turn: Callable[[Any], Any]) -> None:
        self._effect = effect
        self._turn = turn

    def __await__(self) -> Generator[Effect[Any], Any, Any]:
        result = None if self._effect is None else (yield self._effect)
        return self._turn(result)


class MemberPort(Port):
    """The port of one of `members`, the actors' own names by their ranks in the group."""

    __slots__ = ("_members", "_of", "_own")

    def __init__(self, own: Port, members: Sequence[str], scope: str, seed: int) -> None:
        super().__init__(worker(members.index(own.name)), seed, own.now, own.record, own.details)
        self._own = own
        self._members = tuple(members)
        self._of = {name: worker(rank) for rank, name in enumerate(members)}
        self._scope = scope

    def scoped(self, scope: str) -> Port:
        """A port of the same member with separate topics and random streams."""
        if not scope:
            return self
        port = MemberPort(self._own, self._members, self._scope + scope, self._seed)
        port._streams, port.incarnation = self._streams, self.incarnation
        return port

    def send(self, to: str, message: Message) -> Any:
        """Send to a member."""
        return super().send(self._actor(to), message)

    def send_all(self, to: Sequence[str], message: Message) -> Any:
        """Send to several members."""
        return super().send_all([self._actor(name) for name in to], message)

    def receive(self, topic: str, sender: str = "", timeout: float | None = None) -> Any:
        """Wait for a message of a member."""
        return _Awaited(super().receive(topic, sender and self._actor(sender), timeout), self._delivered)

    def receive_all(self, topic: str) -> Any:
        """All messages that have come."""
        return _Awaited(super().receive_all(topic), lambda found: [self._delivered(each) for each in found])

    def flush(self, to: str = "", rated: bool = False) -> Any:
        """Wait until what was sent has left."""
        return super().flush(to and self._actor(to), rated)

    def reduce(self, value: Tensor, topic: str, group: Group, schedule: Schedule) -> Any:
        """None: sums are made of messages."""
        return _Awaited(None, lambda _: None)

    def reduce_in_place(self, parts: Sequence[Tensor], divisor: float, topic: str, group: Group, schedule: Schedule) -> Any:
        """None: sums are made of messages."""
        return _Awaited(None, lambda _: None)

    def share_memory(self, nbytes: int, address: str = "") -> ShareMemory:
        """Refused: ranks are on different hosts."""
        raise CompositionError("Ranks of torch.distributed share no memory: choose a strategy whose workers exchange messages.")

    def _actor(self, name: str) -> str:
        return self._members[rank_of(name)]

    def _delivered(self, delivery: Delivery | None) -> Delivery | None:
        return None if delivery is None else Delivery(self._of[delivery.sender], delivery.message)


class GroupContext:
    """The context of a member; `rounds` are what all members share."""

    def __init__(self, own: WorkerContext, members: Sequence[str], scope: str, rounds: Rounds, seed: int) -> None:
        self._own = own
        self._rounds = rounds
        self.port: Port = MemberPort(own.port, members, scope, seed)
        self.crew: CrewSide = FixedCrew()

    @property
    def bytes_sent(self) -> int:
        """Bytes that all ranks together have sent so far."""
        return self._own.bytes_sent

    @property
    def device(self) -> str:
        """The device of the rank."""
        return self._own.device

    def record(self, event: AnyEvent) -> None:
        """Record an event of the rank, under its own name."""
        self._own.record(replace(event, actor=self._own.port.name))

    def time(self) -> float:
        return self._own.time()

    def charge(self, samples: int) -> None:
        """What is computed is charged up to each exchange."""

    def discard(self) -> None:
        """What is computed is charged up to each exchange."""

    def reach(self, done: float) -> None:
        """What is computed is charged up to each exchange."""

    def charge_merge(self, others: int) -> None:
        self._own.charge_merge(others)

    def free(self, compute: Callable[[], T]) -> T:
        return self._own.free(compute)

    def write(self, deed: Callable[[], T]) -> T:
        return self._own.write(deed)

    def uncounted(self, compute: Callable[[], T]) -> T:
        return self._own.uncounted(compute)

    def counted(self, compute: Callable[[], T]) -> T:
        return self._own.counted(compute)

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        return self._own.perform(coroutine)

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        self._own.begin(coroutine, done)

    def agree(self, facts: Facts, remedy: str) -> None:
        self._rounds.agree(self.port.name, facts, remedy)

    def align(self, alignment: Alignment) -> Message | None:
        return self._rounds.align(self.port.name, alignment)

    def compare(self, comparison: Comparison) -> None:
        self._rounds.compare(self.port.name, comparison)

    def stopped(self, steps: int) -> None:
        """The program goes on after its last step."""

    def last_step(self, clock: int) -> int | None:
        """None: the program ends as it wants to."""
        return None

    def stop(self, kept: bool) -> None:
        """Never called: no step is the last."""
