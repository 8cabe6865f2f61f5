"""Messages that nobody sends again: one sealed datagram of UDP each.

    datagram   tag u32 | number u64 | AES-256-GCM of one frame (`wire`), which authenticates both | its tag of 16 bytes

A sender asks over the connection that the two actors have, which is authenticated and, between hosts, sealed. The receiver answers
with its port, a key of its making for this sender alone, and the tag by which it will know the sender. Numbers count a sender's
datagrams and are the nonces; each is taken once, and none that is far behind the newest. So a datagram that comes twice, was changed, or
is from someone else is dropped and counted, and so is one that the system has no room for. Within a host datagrams are sealed too:
anyone may send to a port.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport import wire
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.loop import READ, EventLoop
from polyrhythm.core.processes.transport.wire import Limits
from polyrhythm.errors import WireError

TOPICS = ("datagrams?", "datagrams")
_ASK, _ANSWER = TOPICS
_HEAD = struct.Struct("<IQ")
_NONCE = struct.Struct("<Q4x")
_KEY_BYTES = 32
_LARGEST = 65_536
_ROOM_BYTES = 4 << 20
_READS_AT_ONCE = 64
_KEPT = 64
"""Datagrams that wait for a receiver's answer; the oldest is dropped for a new one."""
_WINDOW = 4096
"""Numbers behind the newest that are still taken."""
_HERE = "127.0.0.1"


@dataclass(slots=True)
class _Outgoing:
    """The datagrams to one receiver: `sealer` and `target` are known when it has answered; `kept` wait for that."""

    sealer: AESGCM | None = None
    target: tuple[str, int] = ("", 0)
    tag: int = 0
    sent: int = 0
    kept: deque[Message] = field(default_factory=lambda: deque(maxlen=_KEPT))


@dataclass(slots=True)
class _Incoming:
    """The datagrams from one sender: bit k of `seen` is whether the number `newest` - k has come."""

    sender: str
    opener: AESGCM
    newest: int = -1
    seen: int = 0

    def is_new(self, number: int) -> bool:
        """Note a number that was authenticated: True if it has not come before and is not too far behind."""
        ahead = number - self.newest
        if ahead > 0:
            self.seen = (self.seen << ahead | 1) & ((1 << _WINDOW) - 1) if ahead < _WINDOW else 1
            self.newest = number
            return True
        if -ahead >= _WINDOW or self.seen >> -ahead & 1:
            return False
        self.seen |= 1 << -ahead
        return True


@dataclass(frozen=True, slots=True)
class DatagramPeer:
    """The parts of an actor's connections that its datagrams need: its address, those of others, a way to ask them, and a receiver."""

    own: Address
    address_of: Callable[[str], Address]
    send_control: Callable[[str, Message], None]
    deliver: Callable[[str, Message], None]


class Datagrams:
    """One actor's datagrams; only for the loop's thread. `received` and `rejected` count what came."""

    def __init__(self, loop: EventLoop, peer: DatagramPeer, limits: Limits) -> None:
        self.received = 0
        self.rejected = 0
        self._loop = loop
        self._peer = peer
        self._limits = limits
        self._socket: socket.socket | None = None
        self._outgoing: dict[str, _Outgoing] = {}
        self._incoming: dict[int, _Incoming] = {}

    def send(self, to: str, message: Message) -> None:
        """Send `message` once, if the system has room for it."""
        if to not in self._outgoing:
            self._outgoing[to] = _Outgoing()
            self._peer.send_control(to, Message(_ASK))
        way = self._outgoing[to]
        if way.sealer is None:
            way.kept.append(message)
            return
        head = _HEAD.pack(way.tag, way.sent)
        sealed = way.sealer.encrypt(_NONCE.pack(way.sent), b"".join(wire.encode(message, limits=self._limits)), head)
        way.sent += 1
        try:
            self._open().sendto(head + sealed, way.target)
        except OSError:  # no room, or nobody there: it is lost
            self.rejected += 1

    def control(self, name: str, message: Message) -> None:
        """The actor `name` asks how to send datagrams here, or answers that. Raises WireError for what is no answer."""
        if message.topic == _ASK:
            key, tag = secrets.token_bytes(_KEY_BYTES), len(self._incoming)
            self._incoming[tag] = _Incoming(name, AESGCM(key))
            port = self._open().getsockname()[1]
            self._peer.send_control(name, Message(_ANSWER, (float(port), float(tag)), key.hex()))
            return
        way = self._outgoing.get(name)
        try:
            port, tag = (int(number) for number in message.numbers)
            sealer = AESGCM(bytes.fromhex(message.text))
        except (ValueError, OverflowError):
            raise WireError("An answer on how to send datagrams was malformed.") from None
        if way is None or way.sealer is not None or not 0 < port < 1 << 16 or not 0 <= tag < 1 << 32:
            raise WireError("An answer on how to send datagrams was malformed, or was not asked for.")
        there = self._peer.address_of(name)
        way.sealer, way.tag, way.target = sealer, tag, (there.ip or _HERE, port)
        while way.kept:
            self.send(name, way.kept.popleft())

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._loop.forget(self._socket)
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._socket is None:
            ip = self._peer.own.ip or _HERE
            self._socket = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _ROOM_BYTES)
            self._socket.bind((ip, 0))
            self._loop.watch(self._socket, READ, self._read)
        return self._socket

    def _read(self, _: int) -> None:
        for _ in range(_READS_AT_ONCE):
            if self._socket is None:
                return
            try:
                data = self._socket.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:  # what a peer's system sends back for a port that is closed
                continue
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            way, message = self._opened(data)
        except (WireError, InvalidTag, struct.error, KeyError):
            self.rejected += 1
            return
        self.received += 1
        self._peer.deliver(way.sender, message)

    def _opened(self, data: bytes) -> tuple[_Incoming, Message]:
        tag, number = _HEAD.unpack_from(data)
        way = self._incoming[tag]
        plain = way.opener.decrypt(_NONCE.pack(number), data[_HEAD.size :], data[: _HEAD.size])
        if not way.is_new(number):
            raise WireError("A datagram came again, or too late.")
        decoder = Decoder(self._limits)
        frames = list(decoder.feed(plain))
        decoder.finish()
        if len(frames) != 1 or frames[0].flags:
            raise WireError("A datagram holds one message.")
        return way, frames[0].message
