"""Sends and receives where a tensor leaves only when its receiver has announced that it waits, as gloo's buffers do over TCP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.matching import Posted, Sending, TalliedReceiving, come, fill
from polyrhythm.process_group.messages.party import Doing

_BUFFERED = 1 << 16
"""Up to so many bytes leave into the buffers of the system at once."""


class AnnouncedMatching:
    """Those of one of `members`. A send is offered; a receive from a member is announced to it, one from anyone to the first who offers."""

    def __init__(self, port: Port, topic: str, members: Sequence[str], within: float | None) -> None:
        self._port, self._topic, self._members, self._within = port, topic, members, within
        self._announced: list[Posted] = []
        self._from_anyone: list[Posted] = []
        self._offered: list[tuple[int, int]] = []
        """The source and tag of each offer for which no receive was posted."""
        self._expected: Counter[tuple[int, int]] = Counter()
        """The offers that are still to come of receives that were posted before."""

    async def listen(self) -> None:
        """Match what comes, as long as the member lives."""
        while (delivery := await self._port.receive(self._topic)) is not None:
            message = delivery.message
            if message.tensors:
                posted = next(each for each in self._announced if each.takes(message))
                self._announced.remove(posted)
                posted.message = message
                posted.come.open()
            else:
                await self._offer(int(message.numbers[0]), int(message.numbers[1]))

    def deliver(self, to: str, message: Message, work: Sending) -> Callable[[], Doing]:
        """Send to a member, when it has announced that it waits; done when the rest of it is in the buffers of the system."""
        offer = Message(message.topic, message.numbers)
        work.tally.nbytes = wire_bytes(message) + wire_bytes(offer)

        async def leave() -> None:
            await self._port.send(to, offer)
            if await self._port.receive(self._take(message.numbers[1], to), to, self._within) is None:
                raise work.call.late(rank_of(self._port.name), f"rank {rank_of(to)}", self._within)
            await self._port.send(to, message)
            if wire_bytes(message) > _BUFFERED:
                await self._port.flush(to)

        return leave

    def take(self, source: int | None, tag: int, work: TalliedReceiving) -> Callable[[], Doing]:
        """Receive into the outputs of `work`."""
        return partial(self._received, Posted(source, tag), work)

    async def _received(self, posted: Posted, work: TalliedReceiving) -> None:
        work.tally.nbytes = wire_bytes(self._notice(posted))
        offered = next((each for each in self._offered if each[1] == posted.tag and posted.source in (None, each[0])), None)
        if offered is not None:
            self._offered.remove(offered)
            posted.source = offered[0]
        elif posted.source is not None:
            self._expected[posted.source, posted.tag] += 1
        if posted.source is None:
            self._from_anyone.append(posted)
            waiting = self._from_anyone
        else:
            await self._announce(posted)
            waiting = self._announced
        await come(self._port, posted, work.call, self._within, waiting)
        fill(work, posted.message)

    async def _offer(self, source: int, tag: int) -> None:
        """A member has something to send."""
        if self._expected[source, tag]:
            self._expected[source, tag] -= 1
            return
        posted = next((each for each in self._from_anyone if each.tag == tag), None)
        if posted is None:
            self._offered.append((source, tag))
        else:
            self._from_anyone.remove(posted)
            posted.source = source
            await self._announce(posted)

    async def _announce(self, posted: Posted) -> None:
        assert posted.source is not None
        self._announced.append(posted)
        await self._port.send(self._members[posted.source], self._notice(posted))

    def _notice(self, posted: Posted) -> Message:
        return Message(self._take(posted.tag, self._port.name))

    def _take(self, tag: float, receiver: str) -> str:
        return f"{self._topic}/{int(tag)}?{receiver}"
