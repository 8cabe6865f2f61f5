"""A worker's context among the ranks of a process group: their actors under the names worker/0, worker/1, …, with topics of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace
from torch import Tensor

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew_side import CrewSide, FixedCrew
from polyrhythm.core.kernel.effects import Effect, Schedule, ShareMemory
from polyrhythm.core.kernel.events import AnyEvent, Communicated, Reported, Stepped
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import ASIDE, Delivery, Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.rounds import Comparing
from polyrhythm.errors import CompositionError
from polyrhythm.process_group.messages.calls import NOWHERE, line_of_caller

T = TypeVar("T")
_BYTES = "bytes"


def _where() -> str:
    """The line of the program that exchanges; that it ends may have an exchange follow."""
    found = line_of_caller()
    return "the end" if found == NOWHERE else found


class StepsOfRank(Protocol):
    """What a rank counts, also while it is a worker."""

    def begin(self) -> None:
        """A step begins."""

    def worked(self, clock: int, samples: int) -> None:
        """The worker has taken its step `clock`, perhaps with another of its models, and has computed on so many samples until now."""

    def reported(self, metrics: dict[str, float]) -> None:
        """The worker has reported metrics."""


class _Awaited:
    """An effect whose result is turned into another."""

    def __init__(self, effect: Effect[Any] | None, turn: Callable[[Any], Any]) -> None:
        self._effect = effect
        self._turn = turn

    def __await__(self) -> Generator[Effect[Any], Any, Any]:
        result = None if self._effect is None else (yield self._effect)
        return self._turn(result)


def axis_of(description: str | None) -> str:
    """The mesh axis in a group's description, which DeviceMesh calls "mesh_tp"; else the description itself."""
    text = (description or "").removeprefix("mesh_")
    return {"default_pg": "all ranks", "undefined": "", "dim_0": ""}.get(text, text)


class MemberPort(Port):
    """The port of one of `members`, the actors' own names by their ranks in the group."""

    __slots__ = ("_members", "_of", "_own", "_sent")

    def __init__(self, own: Port, members: Sequence[str], scope: str, seed: int, sent: Counter[str] | None = None) -> None:
        super().__init__(worker(members.index(own.name)), seed, own.now, own.record, own.details)
        self._own = own
        self._members = tuple(members)
        self._of = {name: worker(rank) for rank, name in enumerate(members)}
        self._scope = scope
        self._sent = Counter[str]() if sent is None else sent

    def scoped(self, scope: str) -> Port:
        """A port of the same member with separate topics and random streams."""
        if not scope:
            return self
        port = MemberPort(self._own, self._members, self._scope + scope, self._seed, self._sent)
        port._streams, port.incarnation = self._streams, self.incarnation
        return port

    def send(self, to: str, message: Message) -> Any:
        """Send to a member."""
        self._count(message, 1)
        return super().send(self._actor(to), message)

    def send_all(self, to: Sequence[str], message: Message) -> Any:
        """Send to several members."""
        self._count(message, len(to))
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

    def take_sent(self) -> int:
        """The bytes that the member has sent since the last call."""
        return self._sent.pop(_BYTES, 0)

    def _count(self, message: Message, times: int) -> None:
        if not message.topic.startswith(ASIDE):
            self._sent[_BYTES] += times * wire_bytes(message)

    def _actor(self, name: str) -> str:
        return self._members[rank_of(name)]

    def _delivered(self, delivery: Delivery | None) -> Delivery | None:
        return None if delivery is None else Delivery(self._of[delivery.sender], delivery.message)


class GroupContext:
    """The context of a member; `rounds` are what all members share, `steps` are those of the rank, `axis` is the mesh axis."""

    def __init__(
        self, own: WorkerContext, members: Sequence[str], scope: str, rounds: Comparing, seed: int, steps: StepsOfRank, axis: str
    ) -> None:
        self._own = own
        self._rounds = rounds
        self._steps = steps
        self._axis = axis
        self.port: MemberPort = MemberPort(own.port, members, scope, seed)
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
        """Record an event of the rank, under its own name; its steps and metrics are for the rank to record."""
        if isinstance(event, Stepped):
            self._steps.worked(event.clock, event.samples)
        elif isinstance(event, Reported):
            self._steps.reported(event.metrics)
        else:
            self._own.record(replace(event, actor=self._own.port.name))

    def time(self) -> float:
        return self._own.time()

    def charge(self, samples: int) -> None:
        """A step begins; what is computed is charged up to each exchange."""
        self._steps.begin()

    def discard(self) -> None:
        """What is computed is charged up to each exchange."""

    def reach(self, done: float) -> None:
        """What is computed is charged up to each exchange."""

    def charge_merge(self, others: int) -> None:
        self._own.charge_merge(others)

    def follow(self, model: Any, alone: str) -> None:
        """Its passes communicate, and are its own."""

    def free(self, compute: Callable[[], T]) -> T:
        return self._own.free(compute)

    def write(self, deed: Callable[[], T]) -> T:
        return self._own.write(deed)

    def uncounted(self, compute: Callable[[], T]) -> T:
        return self._own.uncounted(compute)

    def counted(self, compute: Callable[[], T]) -> T:
        return self._own.counted(compute)

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        since = self._own.port.now()
        result = self._own.perform(coroutine)
        waited, nbytes = self._own.port.now() - since, self.port.take_sent()
        if waited or nbytes:
            name = self._own.port.name
            event = Communicated(since + waited, name, "exchange", "", self._axis, _where(), nbytes, waited, waited)
            self._own.record(event)
        return result

    def perform_steps(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        self.perform(coroutine)

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        self._own.begin(coroutine, done)

    def native(self, group: Group) -> bool:
        """Always False: the process group has collectives of its own."""
        return False

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
