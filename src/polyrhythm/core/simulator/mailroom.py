"""Messages under way: counted when they are sent, carried by flows, delivered in the order sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from polyrhythm.core.kernel.effects import Send, SendAll, SendDatagram
from polyrhythm.core.kernel.events import Carried, Delivered, Recorder, Sent
from polyrhythm.core.kernel.message import ASIDE, Delivery, Message, wire_bytes
from polyrhythm.core.simulator.actors import FifoChannel, VirtualActor, VirtualTask
from polyrhythm.core.simulator.broadcasts import Broadcasts
from polyrhythm.core.simulator.connection import REMEMBERED
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.post import Post, PostHooks, Start
from polyrhythm.core.simulator.task_runner import TaskRunner
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.timetable import LinkKey

_MOST_CARRIED = 64
"""An actor with connections to more others does not record what each has carried: of a thousand workers that would be a million events."""


class Carrier(Protocol):
    """Carries bytes through the network: `flows.Flows`."""

    fell_silent: list[tuple[str, str]]
    """Actors that were `sending` when that was asked, and whose last byte to the other one, or to all (""), has left since then.

    The reader empties it; some may have sent again.
    """

    def start(self, now: float, sender: str, receiver: str, nbytes: int, token: object) -> None:
        """Begin to carry `nbytes`."""

    def next_time(self) -> float:
        """The time at which something is due; infinity if nothing is."""

    def advance(self, now: float) -> list[object]:
        """The tokens of what has arrived by `now`."""

    def sending(self, actor: str, to: str) -> bool:
        """True while some byte that `actor` has sent, `to` one other if given, has not left it; the end of that is in `fell_silent`."""

    def crosses(self, sender: str, receiver: str) -> bool:
        """True if messages from `sender` to `receiver` go to another site."""

    def latency(self, sender: str, receiver: str) -> float:
        """The seconds that a byte takes from `sender` to `receiver`."""

    def block(self, now: float, a: str, b: str, blocked: bool) -> None:
        """Let nothing flow between `a` and `b`, or let it flow again."""

    def change(self, now: float, key: LinkKey, capacity: float) -> None:
        """Give a link another bandwidth."""

    def forget(self, now: float, actor: str) -> list[object]:
        """The tokens of what will never arrive because `actor` is gone."""


Fates = Callable[[str, str], Callable[[str], tuple[float, ...]]]
"""Between two actors, what becomes of the next datagram under a topic: the seconds by which each copy that arrives is late."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What records sends, and arrivals; None where these are not recorded."""

    sends: Recorder | None = None
    arrivals: Recorder | None = None


class Mailroom:
    """Sends and delivers by a `post`. `carrier` is None where the network takes no time. `bytes_between_sites` is None where it is not
    known: without a network, and with collectives in closed form.
    """

    def __init__(
        self,
        queue: EventQueue,
        actors: dict[str, VirtualActor],
        carrier: Carrier | None,
        runner: TaskRunner,
        notes: Notes,
        post: Callable[[EventQueue, TaskRunner, Start | None, PostHooks], Post] = Post,
    ) -> None:
        self.broadcasts: Broadcasts | None = None
        self.losses: Callable[[str, str], Callable[[str], bool] | None] = _loses_nothing
        self.fates: Fates = _all_in_time
        sent = self._note_sent if notes != Notes() else None
        hooks = PostHooks(self._open, self._hand_over, sent, self._note, self._arrive_late, self._close)
        self.post = post(queue, runner, None if carrier is None else carrier.start, hooks)
        self.deliver = runner.deliver
        self.arrive = self.post.arrive
        self.handlers: dict[type, Callable[[VirtualTask, Any], None]] = {
            Send: self.post.send,
            SendAll: self.send_all,
            SendDatagram: self.send_datagram,
        }
        self._queue = queue
        self._actors = actors
        self._carrier = carrier
        self._events, self._arrivals = notes.sends, notes.arrivals
        self._between = carrier is not None
        self._datagrams: dict[tuple[str, str], tuple[FifoChannel, Callable[[str], tuple[float, ...]]]] = {}
        self._channels = 0

    @property
    def bytes_sent(self) -> int:
        """The bytes that all actors together have sent."""
        return self.post.bytes_sent

    @property
    def messages_sent(self) -> int:
        """The messages that all actors together have sent."""
        return self.post.messages_sent

    @property
    def bytes_between_sites(self) -> int | None:
        """Those of the bytes that went to another site; None where that is not known."""
        return self.post.bytes_between_sites if self._between else None

    def send_all(self, task: VirtualTask, effect: SendAll) -> None:
        """Send a message to each receiver in turn, or charge all of that in closed form."""
        actor, message = task.actor, effect.message
        if self.broadcasts is not None and message.topic[:1] != ASIDE and self.broadcasts.carries(actor.name, effect.to):
            self._broadcast(self.broadcasts, actor, effect)
            return
        for to in effect.to:
            self.post.send(task, Send(to, message))

    def _broadcast(self, broadcasts: Broadcasts, actor: VirtualActor, effect: SendAll) -> None:
        now, message, nbytes = self._queue.now, effect.message, wire_bytes(effect.message)
        count, delivery = len(effect.to), Delivery(actor.name, message)
        self._count(actor, nbytes * count, count)
        for time, crosses, names in broadcasts.send(now, actor.name, effect.to, nbytes):
            if crosses:
                self.post.bytes_between_sites += nbytes * len(names)
            self._queue.at(time, (self._reach, [self._actors[name] for name in names], delivery))
        if self._events is not None:
            for to in effect.to:
                self._events(Sent(now, actor.name, to, message.topic, nbytes))

    def _reach(self, receivers: list[VirtualActor], delivery: Delivery) -> None:
        for receiver in receivers:
            self.deliver(receiver, delivery)

    def send_datagram(self, task: VirtualTask, effect: SendDatagram) -> None:
        """Count a datagram, draw what becomes of it, and send it: a lost one takes as much of the line."""
        between = task.actor.name, effect.to
        if between not in self._datagrams:
            channel = self._channel(task.actor, effect.to)
            channel.fates = []
            self._datagrams[between] = channel, self.fates(*between)
        channel, fate = self._datagrams[between]
        assert channel.fates is not None
        channel.fates.append(fate(effect.message.topic))
        self.post.dispatch(channel, effect.message)

    def _note_sent(self, channel: FifoChannel, message: Message, nbytes: int) -> None:
        """Record that `message` was sent."""
        if self._events is not None:
            self._events(Sent(self._queue.now, channel.sender.name, channel.receiver.name, message.topic, nbytes))
        if self._arrivals is not None:
            if channel.left is None:
                channel.left = []
            channel.left.append((self._queue.now, nbytes))

    def carried(self, actor: VirtualActor) -> Iterator[Carried]:
        """The traffic of each connection of `actor`; none for an actor that has very many connections."""
        if len(actor.channels) > _MOST_CARRIED:
            return
        for to, channel in sorted(actor.channels.items()):
            if channel.messages:
                latency = 0.0 if self._carrier is None else self._carrier.latency(actor.name, to)
                yield Carried(self._queue.now, actor.name, to, channel.nbytes, channel.messages, channel.busy, latency)

    def left(self, actor: str, to: str) -> float:
        """The time at which all has left that `actor` has sent in closed form, `to` one other if given."""
        return 0.0 if self.broadcasts is None else self.broadcasts.left(actor, to)

    def charge(self, actor: VirtualActor, nbytes: int, messages: int) -> None:
        """Count the bytes and messages of `actor` in a collective that was charged in closed form."""
        self._count(actor, nbytes, messages)
        self._between = False

    def _count(self, actor: VirtualActor, nbytes: int, messages: int) -> None:
        actor.bytes_sent += nbytes
        actor.messages_sent += messages
        self.post.bytes_sent += nbytes
        self.post.messages_sent += messages

    def _arrive_late(self, channel: FifoChannel, delivery: Delivery | None) -> None:
        assert channel.fates is not None
        delays = channel.fates.pop(0)
        if delivery is None:
            return
        for delay in delays:
            if delay:
                self._queue.at(self._queue.now + delay, (self.deliver, channel.receiver, delivery))
            else:
                self.deliver(channel.receiver, delivery)

    def _note(self, channel: FifoChannel, delivery: Delivery | None) -> None:
        """Record an arrival, unless the message is lost."""
        assert self._arrivals is not None
        assert channel.left is not None
        since, nbytes = channel.left.pop(0)
        if delivery is not None:
            now, sender, receiver = self._queue.now, channel.sender.name, channel.receiver.name
            link = f"{sender} to {receiver}" + (" between sites" if channel.crosses else "")
            self._arrivals(Delivered(now, receiver, sender, delivery.message.topic, nbytes, now - since, link))

    def _hand_over(self, to: str, delivery: Delivery) -> None:
        self.deliver(self._actors[to], delivery)

    def forget(self, actor: VirtualActor) -> None:
        """Drop what `actor` had not sent yet and what was being sent to it."""
        if self._carrier is not None:
            for channel in self._carrier.forget(self._queue.now, actor.name):
                assert isinstance(channel, FifoChannel)
                channel.line.pop()  # what is lost was sent last
                if channel.left:
                    channel.left.pop()
                if channel.fates:
                    channel.fates.pop()

    def block(self, a: str, b: str, blocked: bool) -> None:
        """Block all connections between `a` and `b`, or unblock them."""
        assert self._carrier is not None, "a network that takes no time cannot be cut"
        self._carrier.block(self._queue.now, a, b, blocked)

    def change(self, key: LinkKey, capacity: float) -> None:
        """Give a link another bandwidth from now on, in bytes per second."""
        assert self._carrier is not None, "a network that takes no time has no links"
        self._carrier.change(self._queue.now, key, capacity)

    def _open(self, actor: VirtualActor, to: str) -> FifoChannel:
        channel = actor.channels[to] = self._channel(actor, to)
        self._channels += 1
        self.post.crowded = self._channels > REMEMBERED
        return channel

    def _channel(self, actor: VirtualActor, to: str) -> FifoChannel:
        receiver = self._actors.get(to)
        if receiver is None:
            raise CompositionError(f"{actor.name} sent a message to {to!r}, which does not exist: the run has {', '.join(self._known())}.")
        crosses = self._carrier is not None and self._carrier.crosses(actor.name, to)
        return FifoChannel(actor, receiver, self.losses(actor.name, to), crosses)

    def _close(self, channel: FifoChannel) -> None:
        """Forget an idle channel; one that loses messages has a random stream, and must be kept."""
        del channel.sender.channels[channel.receiver.name]
        self._channels -= 1
        self.post.crowded = self._channels > REMEMBERED

    def _known(self) -> list[str]:
        names = list(self._actors)
        return names if len(names) <= 8 else [*names[:4], "…", names[-1]]


def _loses_nothing(sender: str, receiver: str) -> None:
    return None


def _all_in_time(sender: str, receiver: str) -> Callable[[str], tuple[float, ...]]:
    return lambda topic: (0.0,)
