"""The interface of an actor to its runtime.

A runtime makes one `Port` for each actor; the actor's coroutines get it, and send, receive and wait through it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.kernel.effects import (
    ClosedExchange,
    Compute,
    Effect,
    Enter,
    Flush,
    NativeCollective,
    NativeCollectives,
    NativeExchange,
    NativeReduce,
    NativeReduceInPlace,
    Receive,
    ReceiveAll,
    Schedule,
    Send,
    SendAll,
    SendDatagram,
    ShareMemory,
    Sleep,
    Spawn,
    Wait,
)
from polyrhythm.core.kernel.events import Progressed, Recorder, Sent, unrecorded
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import ASIDE, DATAGRAM_BYTES, NOTICE, Message, wire_bytes
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError

Body = Callable[["Port"], Coroutine[Effect[Any], Any, None]]
"""An actor: it lives as long as its coroutine."""


class Port:
    """The operations of an actor. Each method makes an effect to be awaited, except `now` and `rng`, which return at once.

    `name` is the actor's own ("worker/3", "server/0"); `clock` gives the runtime's time in seconds since the run began. `scope` is put
    before every topic and every random stream's name. Events go to `record`; those that come by the thousand only if `details` are wanted.
    `draws_as` and `incarnation` are in the path of every random stream: the first is its name, but workers that hold the parts of one model
    draw alike; others of this name have drawn from those without the second.
    """

    __slots__ = ("_epoch", "_scope", "_seed", "_streams", "details", "draws_as", "incarnation", "name", "now", "record")

    def __init__(self, name: str, seed: int, clock: Callable[[], float], record: Recorder = unrecorded, details: bool = False) -> None:
        self.name = name
        self.record = record
        self.details = details
        self.incarnation: tuple[str, ...] = ()
        self.draws_as = name
        self.now = clock
        """Returns the seconds since the run began."""
        self._seed = seed
        self._scope = ""
        self._epoch = 0
        self._streams: dict[str, np.random.Generator] = {}

    def scoped(self, scope: str) -> Port:
        """A port of the same actor with separate topics and random streams; the port itself where `scope` is empty."""
        if not scope:
            return self
        port = Port(self.name, self._seed, self.now, self.record, self.details)
        port._scope, port._epoch, port._streams = self._scope + scope, self._epoch, self._streams
        port.incarnation, port.draws_as = self.incarnation, self.draws_as
        return port

    @property
    def changed(self) -> bool:
        """True in a later view than the first of a run under way."""
        return self._epoch > 0

    def enter(self, epoch: int) -> Enter:
        """Use other topics and random streams from now on, those of the view of that `epoch`; ports of scopes must be made anew.

        A coroutine awaits the result: then all others of the actor are closed.
        """
        self._epoch, self._scope = epoch, epoch_scope(epoch)
        return Enter(epoch)

    def notice(self, topic: str) -> Receive:
        """Wait for a notice of the runtime, in whatever view."""
        return Receive(topic)

    def topic(self, topic: str) -> str:
        """The whole topic of a message under `topic`: one that is not counted begins with ASIDE."""
        return ASIDE + self._scope + topic[1:] if self._epoch and topic[:1] == ASIDE else self._scope + topic

    def send(self, to: str, message: Message) -> Send:
        """Send `message` to the actor `to`; the sender continues at once and must not write to its tensors."""
        if self._scope:
            message = Message(self.topic(message.topic), message.numbers, message.text, message.tensors)
        if self.details and message.topic[:1] != ASIDE:
            self.record(Sent(self.now(), self.name, to, message.topic, wire_bytes(message)))
        return Send(to, message)

    def send_all(self, to: Sequence[str], message: Message) -> SendAll:
        """Send the same `message` to each of several actors, as `send` does."""
        if self._scope:
            message = Message(self.topic(message.topic), message.numbers, message.text, message.tensors)
        if self.details and message.topic[:1] != ASIDE:
            nbytes = wire_bytes(message)
            for name in to:
                self.record(Sent(self.now(), self.name, name, message.topic, nbytes))
        return SendAll(to, message)

    def send_datagram(self, to: str, message: Message) -> SendDatagram:
        """Send a `message` that may be lost, or come late, twice or after later ones.

        Raises CompositionError for one of more than `DATAGRAM_BYTES`.
        """
        sent = self.send(to, message).message
        if (nbytes := wire_bytes(sent)) > DATAGRAM_BYTES:
            raise CompositionError(
                f"A message {sent.topic!r} of {nbytes} bytes was to be a datagram, which holds {DATAGRAM_BYTES}: cut it into several."
            )
        return SendDatagram(to, sent)

    def receive(self, topic: str, sender: str = "", timeout: float | None = None) -> Receive:
        """Wait for the oldest message under `topic`: a `Delivery`, or None after `timeout` seconds."""
        return Receive(self.topic(topic) if self._scope else topic, sender, timeout)

    def receive_all(self, topic: str) -> ReceiveAll:
        """All messages under `topic` that have come, the oldest first; does not wait."""
        return ReceiveAll(self.topic(topic) if self._scope else topic)

    def flush(self, to: str = "", rated: bool = False) -> Flush:
        """Wait until all that was sent (`to` one actor, if given) has left, so that the next message does not share the link with it.

        If `rated`, the result is the rate in bytes per second that the system has measured there, or None.
        """
        return Flush(to, rated)

    def wait(self, latch: Latch) -> Wait:
        """Wait until another coroutine of this actor has opened `latch`."""
        return Wait(latch)

    def sleep(self, seconds: float) -> Sleep:
        """Wait for that many seconds of the runtime's time."""
        return Sleep(seconds)

    def compute(self, flops: float) -> Compute:
        """Charge `flops` floating-point operations to this actor's device (virtual time only)."""
        return Compute(flops)

    def compute_step(self) -> Compute:
        """Charge a step that was measured to this worker's device (virtual time only)."""
        return Compute(0.0, step=True)

    def merged(self, contributions: int) -> Compute:
        """Charge having merged `contributions` to this actor's device (virtual time, where that was measured)."""
        return Compute(0.0, contributions)

    def reduce(self, value: Tensor, topic: str, group: Group, schedule: Schedule) -> NativeReduce:
        """The sum of `value` over `group`, or None where the runtime leaves that to messages."""
        return NativeReduce(value, self._scope + topic, group, schedule)

    def reduce_in_place(self, parts: Sequence[Tensor], divisor: float, topic: str, group: Group, schedule: Schedule) -> NativeReduceInPlace:
        """Replace `parts` by their sum over `group`, divided by `divisor`; None where the caller must use `reduce` instead."""
        return NativeReduceInPlace(parts, divisor, self._scope + topic, group, schedule)

    def collective(self, make: Callable[[NativeCollectives], None], topic: str, group: Group, traffic: tuple[int, int]) -> NativeCollective:
        """A native collective of `group` in the place of messages of these bytes and that number."""
        return NativeCollective(make, self._scope + topic, group, traffic)

    def exchange(self, value: Any, topic: str, group: Group, form: ClosedExchange) -> NativeExchange:
        """This member's result of `form`, or None where the runtime leaves that to messages."""
        return NativeExchange(value, self._scope + topic, group, form)

    def share_memory(self, nbytes: int, address: str = "") -> ShareMemory:
        """Memory for several actors of this host: a `MemoryBlock`, new or found by its address."""
        return ShareMemory(nbytes, address)

    def spawn(self, name: str, coroutine: Coroutine[Effect[Any], Any, None]) -> Spawn:
        """Run `coroutine` concurrently, as part of the same actor."""
        return Spawn(name, coroutine)

    def progressed(self, tensor: str, phase: str, since: float) -> float:
        """Record that a phase of an exchange (`events.Progressed`) began at `since` and ends now, if details are wanted: now."""
        now = self.now()
        if self.details:
            self.record(Progressed(now, self.name, tensor, phase, now - since))
        return now

    def rng(self, name: str) -> np.random.Generator:
        """The random stream `name` of this actor: the same numbers in every runtime."""
        full = self._scope + name
        if full not in self._streams:
            self._streams[full] = rng.stream(self._seed, self.draws_as, *self.incarnation, full)
        return self._streams[full]

    def export(self) -> StateTree:
        """The states of the random streams of this scope, by name."""
        return {name: stream.bit_generator.state for name, stream in self._streams.items() if name.startswith(self._scope)}

    def restore(self, state: StateTree) -> None:
        """Continue the random streams that a port of the same scope has exported."""
        for name, where in state.items():
            self.rng(name.removeprefix(self._scope)).bit_generator.state = where


def epoch_scope(epoch: int) -> str:
    """The prefix of all topics in the view of that `epoch`; none in the first."""
    return f"{epoch}~" if epoch else ""


def epoch_of(topic: str) -> int:
    """The epoch of a whole topic; that of a notice is the last, since it is never dropped."""
    if topic.startswith(NOTICE):
        return sys.maxsize
    epoch, found, _ = topic.lstrip(ASIDE).partition("~")
    return int(epoch) if found and epoch.isdecimal() else 0
