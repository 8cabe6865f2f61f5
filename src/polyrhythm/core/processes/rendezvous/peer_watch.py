"""Watches other joined workers by their beats, which come as datagrams of UDP, and sends this worker's to those that watch it.

    datagram   the 80 bytes of a beat (`beat.py`), whose tag the receiver has chosen | keyed BLAKE2s of them, 16 bytes

A worker asks another for its beats over their connection, which is authenticated and, between hosts, sealed: with its port, a tag and a key
of its making for this sender alone. A beat proves that its sender has the key; one whose number has come before is dropped. What beats
say is not secret. Where no datagram comes through, nobody is judged by beats. `PeerMonitor` has a `PeerWatch`; all in the loop's thread.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterable
from hmac import compare_digest

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.beat import NBYTES, Beat, decode
from polyrhythm.core.processes.runtime.beat_sender import MAC_BYTES, BeatSender, BeatTarget, mac
from polyrhythm.core.processes.runtime.beats import BeatLimits, BeatObserver, PeerFinding, process_state
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.suspicions import Suspicions
from polyrhythm.errors import WireError

TOPIC = "beats"
_KEY_BYTES = 32
_ROOM_BYTES = 4 << 20
_STAMP = struct.Struct("@2l")
_SO_TIMESTAMPNS = 35
"""The kernel notes when a datagram came: this worker looks four times a second only."""


class PeerWatch:
    """The watch of the worker of `node`; `near` is true for actors on this host."""

    def __init__(self, node: Node, limits: BeatLimits, near: Callable[[str], bool]) -> None:
        self._node = node
        self._sender = BeatSender(node.steps)
        self._socket: socket.socket | None = None
        self._ips: dict[str, str] = {}
        self._asked: dict[str, Message] = {}
        self._senders: list[tuple[str, bytes]] = []
        self._watched: set[str] = set()
        self.observer = BeatObserver(limits, lambda name, pid: process_state(pid) if near(name) else None)
        self._suspicions = Suspicions(self.observer)

    def begin(self, ips: dict[str, str]) -> None:
        """All are connected; `ips` are the addresses at which they get datagrams."""
        ip = self._node.peers.address.ip
        self._ips = ips
        self._socket = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind((ip, 0))
        self._sender.start()
        for name, message in self._asked.items():
            self._send_to(name, message, self._socket)

    def learn(self, ips: dict[str, str]) -> None:
        """These may ask for beats, too."""
        self._ips |= ips

    def watch(self, names: Iterable[str]) -> None:
        """Ask `names` for their beats, unless they send them already; nothing before all are connected."""
        if self._socket is None:
            return
        port = self._socket.getsockname()[1]
        for name in names:
            if name not in self._watched:
                key, tag = secrets.token_bytes(_KEY_BYTES), len(self._senders)
                self._senders.append((name, key))
                self._watched.add(name)
                self.observer.begin([name])
                self._node.peers.send_control(name, Message(TOPIC, (float(port), float(tag)), key.hex()))

    def asked(self, name: str, message: Message) -> None:
        """The worker `name` asks for this one's beats. Raises WireError for what does not say how."""
        if name in self._asked:
            raise WireError(f"{name} has asked for beats twice.")
        self._asked[name] = message
        if self._socket is not None:
            self._send_to(name, message, self._socket)

    def forget(self, name: str) -> None:
        """The actor `name` has ended, or is lost."""
        self.observer.forget(name)
        self._suspicions.forget(name)

    def look(self, now: float) -> tuple[list[PeerFinding], list[PeerFinding]]:
        """Take in the beats that have come: the findings that have changed, and those on all suspects."""
        ahead = time.time() - now
        while (received := self._receive()) is not None:
            name, beat, stamp = received
            self.observer.beat(name, beat, stamp - ahead)
        return self._suspicions.look(now)

    def close(self) -> None:
        """Send no more; when the loop has ended."""
        self._sender.stop()
        if self._socket is not None:
            self._socket.close()

    def _send_to(self, name: str, message: Message, channel: socket.socket) -> None:
        try:
            port, tag = (int(number) for number in message.numbers)
            key = bytes.fromhex(message.text)
        except (ValueError, OverflowError):
            raise WireError(f"{name} has asked for beats, and did not say how.") from None
        if not 0 < port < 1 << 16 or not 0 <= tag < 1 << 32 or len(key) != _KEY_BYTES or name not in self._ips:
            raise WireError(f"{name} has asked for beats, and did not say how.")
        self._sender.add(BeatTarget(channel, self._ips[name], port, tag, key))

    def _receive(self) -> tuple[str, Beat, float] | None:
        """The next beat that proves itself: its sender, and when it came by the system's clock."""
        while self._socket is not None:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(NBYTES + MAC_BYTES + 1, socket.CMSG_SPACE(_STAMP.size), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:  # what a peer's system sends back for a port that is closed
                continue
            if len(data) != NBYTES + MAC_BYTES or not ancillary:
                continue
            tag, beat = decode(data[:NBYTES])
            if tag < len(self._senders) and compare_digest(mac(self._senders[tag][1], data[:NBYTES]), data[NBYTES:]):
                seconds, nanoseconds = _STAMP.unpack(ancillary[0][2][: _STAMP.size])
                return self._senders[tag][0], beat, seconds + nanoseconds * 1e-9
        return None
