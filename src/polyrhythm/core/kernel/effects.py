"""The closed set of effects: the requests of an actor to the runtime that runs it.

An actor is an `async def body(port)`. `await port.send(...)` yields one of the values below to the runtime, which drives the coroutine, and
resumes with the result. They are slotted and not frozen because the simulator makes hundreds of thousands of them a second.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Delivery, Message

T = TypeVar("T")


class Effect(Generic[T]):
    """Something that the runtime does; awaiting it gives the result."""

    __slots__ = ()

    def __await__(self) -> Generator[Effect[T], T, T]:
        return (yield self)


@dataclass(slots=True)
class Send(Effect[None]):
    """Hand a message over for delivery. Resumes at once; messages between two actors arrive in the order sent."""

    to: str
    message: Message


@dataclass(slots=True)
class SendAll(Effect[None]):
    """Send the same message to each of several actors, in order. The simulator may charge it in closed form."""

    to: Sequence[str]
    message: Message


@dataclass(slots=True)
class SendDatagram(Effect[None]):
    """Hand a message of at most `DATAGRAM_BYTES` over, which may be lost, or come late, twice, or after later ones. Resumes at once.

    It is never sent again, and its sender is not notified of a loss.
    """

    to: str
    message: Message


@dataclass(slots=True)
class Receive(Effect[Delivery | None]):
    """The oldest message under `topic`. With a `timeout` in seconds, None when none arrived in time; 0 does not wait.

    `sender` is the only actor that can send it, where that is known: deadlock messages name it.
    """

    topic: str
    sender: str = ""
    timeout: float | None = None


@dataclass(slots=True)
class ReceiveAll(Effect[Sequence[Delivery]]):
    """All messages under `topic` that have come, the oldest first; does not wait."""

    topic: str


@dataclass(slots=True)
class Sleep(Effect[None]):
    """Resume `seconds` later."""

    seconds: float


@dataclass(slots=True)
class Enter(Effect[None]):
    """Go into the view of that `epoch`: the actor's other coroutines are closed, and its messages of earlier views dropped."""

    epoch: int


@dataclass(slots=True)
class Compute(Effect[None]):
    """Work that the simulator must charge; real processes have done it already.

    It is `flops` floating-point operations, and decoding and merging `contributions`, for which a measured profile has the seconds; or a
    whole `step` of the worker, of so many operations or as it was measured.
    """

    flops: float
    contributions: int = 0
    step: bool = False


class Rounding(Enum):
    """The rounding of sums on their way, beyond that of their type."""

    NONE = "not at all"
    """A runtime may make the sum in its own way."""
    BY_ELEMENT = "element by element"
    """The rounding of an element does not depend on the others that are summed with it."""
    BY_PART = "by what is summed with it"


class Schedule(Protocol):
    """The closed form of a collective algorithm: the time and the traffic of its messages."""

    @property
    def rounding(self) -> Rounding:
        """The rounding of its sums."""

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """The time of one reduction of `nbytes` over `workers` equal links of `latency` seconds and `bandwidth` bytes per second."""

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Bytes, headers included, and messages that all workers together send to reduce `value`."""

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """The rank with which the sum of `part` begins, of the P parts that torch.tensor_split makes of `nbytes`; others follow in order.

        None where the sum is nested otherwise, which only messages can do.
        """


class NativeCollectives(Protocol):
    """A runtime's native collectives of one group, of tensors in contiguous pieces. All members call the same ones in the same order.

    `parts[k]` and `places[k]` are those of rank k; each may have another length, and 0. Raises ConnectionAbortedError if one cannot come.
    """

    def gather(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        """Write what every rank k has as `own` into `places[k]`."""

    def reduce_scatter(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float = 1.0) -> None:
        """Write the sum over all ranks of what they have as `parts` of this one, divided by `divisor`, into `into`, which lies elsewhere.

        Ranks are added up in order, beginning with the next one: as around a ring.
        """


class NativeReducer(Protocol):
    """A runtime's native sums over workers."""

    def reduce(self, effect: NativeReduce) -> Tensor | None:
        """The sum over the group of `effect`; None where that is left to messages."""

    def reduce_in_place(self, effect: NativeReduceInPlace) -> bool | None:
        """True when the parts hold their sum; None where the sum must be made by `reduce`."""

    def collective(self, effect: NativeCollective) -> bool | None:
        """True when the collective of `effect` is made, False where members disagree about what it is; None where there is none."""


@dataclass(slots=True)
class NativeReduce(Effect[Tensor | None]):
    """The sum of `value` over `group`, if the runtime has a native one; None means: use messages.

    Real processes use NCCL on CUDA devices and shared memory on one host. The simulator computes the sum where its collectives are charged
    in closed form, and takes the cost from `schedule`. All members use the same `topic`. Where the sums of a group must have one order
    at all members, this one comes when the latches of `after` are open.
    """

    value: Tensor
    topic: str
    group: Group
    schedule: Schedule
    after: tuple[Latch, ...] = ()

    def apply(self, reducer: NativeReducer) -> Tensor | None:
        """The sum that `reducer` makes; None where that is left to messages."""
        return reducer.reduce(self)


@dataclass(slots=True)
class NativeReduceInPlace(Effect[bool | None]):
    """Replace `parts`, in order one flat vector, by their sum over `group` divided by `divisor`; the result is True when that is done.

    None means: use `NativeReduce`. Parts are contiguous, of one type and on one device, and no two share memory. Real processes use shared
    memory on one host.
    """

    parts: Sequence[Tensor]
    divisor: float
    topic: str
    group: Group
    schedule: Schedule
    after: tuple[Latch, ...] = ()

    def apply(self, reducer: NativeReducer) -> bool | None:
        """True when it is done."""
        return reducer.reduce_in_place(self)


@dataclass(slots=True)
class NativeCollective(Effect[bool | None]):
    """Have `make` call one of the native collectives of `group`; False where members have called different ones, which ends them all.

    It is awaited only where `WorkerContext.native` is true. `traffic` has the bytes and the messages that it saves, which are counted.
    """

    make: Callable[[NativeCollectives], None]
    topic: str
    group: Group
    traffic: tuple[int, int]
    after: tuple[Latch, ...] = ()

    def apply(self, reducer: NativeReducer) -> bool | None:
        """Whether it is done."""
        return reducer.collective(self)


NativeSum = NativeReduce | NativeReduceInPlace
NativeReduction = NativeSum | NativeCollective


class ClosedExchange(Protocol):
    """The closed form of what all members of a group exchange. `values` are what they give, by rank, and so are the results."""

    def results(self, values: Sequence[Any]) -> Sequence[Any]:
        """What messages would bring to each."""

    def ends(self, begins: Sequence[float], values: Sequence[Any], latency: float, bandwidth: float) -> Sequence[float]:
        """When each has it, in seconds, over equal links of `latency` seconds and `bandwidth` bytes per second; they came at `begins`."""

    def traffic(self, values: Sequence[Any]) -> Sequence[tuple[int, int]]:
        """The bytes, headers included, and the messages that each sends."""


@dataclass(slots=True)
class NativeExchange(Effect[Any]):
    """This member's result of an exchange in closed form; None means: use messages.

    Only the simulator has one, where its collectives are charged in closed form. All members use the same `topic`.
    """

    value: Any
    topic: str
    group: Group
    form: ClosedExchange


@dataclass(frozen=True, slots=True, weakref_slot=True)
class MemoryBlock:
    """`content` (nbytes,) of bytes that several actors of one host share; others find it by its `address`.

    `concurrent`: whether several actors may write to it at the same time, as in real processes; in virtual time they do one by one.
    """

    content: Tensor
    address: str
    concurrent: bool


@dataclass(slots=True)
class ShareMemory(Effect[MemoryBlock]):
    """`nbytes` of memory that actors of one host share: new and zero without an `address`, else that which another actor has made.

    Raises CompositionError for memory of another host.
    """

    nbytes: int
    address: str = ""


@dataclass(slots=True)
class Spawn(Effect[None]):
    """Start another coroutine of the same actor; it ends when it returns or when its actor's program ends."""

    name: str
    coroutine: Coroutine[Effect[Any], Any, None]


@dataclass(slots=True)
class Wait(Effect[None]):
    """Resume when another coroutine of the same actor has opened `latch`."""

    latch: Latch


@dataclass(slots=True)
class Flush(Effect[float | None]):
    """Resume when everything that this actor has sent has left it; it need not have arrived. So sends can be made one after another.

    With `to`, only what it has sent to that actor. If `rated`, the result are the bytes per second that the connections there have
    delivered lately, by the system's own measure; None where it has none, and the time until all has left tells. A system has buffers,
    into which much leaves at once.
    """

    to: str = ""
    rated: bool = False
