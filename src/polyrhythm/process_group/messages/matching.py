"""The receives of a member of a process group, matched with what comes: by source and tag, in the order in which both came, as in MPI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from torch import Tensor

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.errors import RunError
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.party import BytesSent, Doing
from polyrhythm.process_group.work_queue import shown


class Receiving(Protocol):
    """A receive that was issued as `call`, into `outputs`; `source` is the rank of the sender, once it is known."""

    @property
    def call(self) -> IssuedCall:
        """What was issued."""

    @property
    def outputs(self) -> list[Tensor]:
        """Where it goes to."""

    source: int


class Sending(Protocol):
    """A send that was issued as `call`."""

    @property
    def call(self) -> IssuedCall:
        """What was issued."""

    @property
    def tally(self) -> BytesSent:
        """What was sent for it."""


class TalliedReceiving(Receiving, Sending, Protocol):
    """A receive for which something is sent."""


@dataclass(slots=True, eq=False)
class Posted:
    """A receive that waits for the next message of `source` (None: anyone) with `tag`."""

    source: int | None
    tag: int
    come: Latch = field(default_factory=Latch)
    message: Message | None = None

    def takes(self, message: Message) -> bool:
        """True if it is that message."""
        source, tag = message.numbers
        return self.tag == tag and self.source in (None, source)


class Matching:
    """The receives that wait, and the messages that no receive has waited for."""

    def __init__(self, port: Port, topic: str, within: float | None = None) -> None:
        self._port = port
        self._within = within
        self._topic = topic
        self._posted: list[Posted] = []
        self._early: list[Message] = []

    async def listen(self) -> None:
        """Match what comes, as long as the member lives."""
        while (delivery := await self._port.receive(self._topic)) is not None:
            message = delivery.message
            for posted in self._posted:
                if posted.takes(message):
                    self._posted.remove(posted)
                    posted.message = message
                    posted.come.open()
                    break
            else:
                self._early.append(message)

    def take(self, source: int | None, tag: int, work: Receiving) -> Callable[[], Doing]:
        """Receive into the outputs of `work`; it is posted at once, so that receives are matched in the order of the calls."""
        posted = Posted(source, tag)
        early = next((message for message in self._early if posted.takes(message)), None)
        if early is None:
            self._posted.append(posted)
        else:
            self._early.remove(early)
            posted.message = early
            posted.come.open()
        return partial(self._received, posted, work)

    def deliver(self, to: str, message: Message, work: Sending) -> Callable[[], Doing]:
        """Send to a member; done when it has left."""
        work.tally.nbytes = wire_bytes(message)

        async def leave() -> None:
            await self._port.send(to, message)
            await self._port.flush(to)

        return leave

    async def _received(self, posted: Posted, work: Receiving) -> None:
        await come(self._port, posted, work.call, self._within, self._posted)
        fill(work, posted.message)


async def come(port: Port, posted: Posted, call: IssuedCall, within: float | None, waiting: list[Posted]) -> None:
    """Return when the message of `posted` has come. Raises DistBackendError, and removes it from `waiting`, if that takes too long."""
    if within is not None and not posted.come.is_open:
        await port.spawn("timeout", _expire(port, posted, within, waiting))
    await port.wait(posted.come)
    if posted.message is None:
        raise call.late(rank_of(port.name), "a message", within)


async def _expire(port: Port, posted: Posted, seconds: float, waiting: list[Posted]) -> None:
    """Let it wait no longer."""
    await port.sleep(seconds)
    if not posted.come.is_open:
        waiting.remove(posted)
        posted.come.open()


def fill(work: Receiving, message: Message | None) -> None:
    """Write what came into the outputs of `work`."""
    assert message is not None
    work.source = int(message.numbers[0])
    if [value.numel() for value in message.tensors] != [output.numel() for output in work.outputs]:
        raise RunError(
            f"A receive of {shown(work.outputs)} at {work.call.where} got {message.text} from rank {work.source}: both must have as "
            "many elements, and sends and receives the same order."
        )
    for output, value in zip(work.outputs, message.tensors, strict=True):
        output.data.copy_(value.view(output.shape))
