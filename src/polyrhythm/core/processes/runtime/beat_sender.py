"""Sends the beats of this process: a thread of Python looks at what the program does, and one in C sends that, which needs no GIL.

Without the extension in C the thread of Python sends them, and they say so. `Child` has a `BeatSender` whose beats go to the launcher,
`PeerWatch` one whose beats go to other joined workers.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Protocol

from polyrhythm.core import atomic
from polyrhythm.core.processes.runtime.beat import EVERY_SECONDS, Beat
from polyrhythm.core.processes.runtime.status import StepTracker

MAC_BYTES = 16
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BeatTarget:
    """Where beats go: over `channel`, which is connected if there is no `ip`; with a `key` they are authenticated."""

    channel: socket.socket
    ip: str = ""
    port: int = 0
    tag: int = 0
    key: bytes = field(default=b"", repr=False)


class BeatThread(Protocol):
    """What sends beats, to all targets that were added."""

    def add(self, descriptor: int, ip: str, port: int, tag: int, key: bytes, /) -> None:
        """Send to this target too."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Send no more."""

    def update(self, step: int, pulse: int, phase: int, computed: int, longest: int, writing: int, /) -> None:
        """Send these numbers from now on."""


class PortableBeats:
    """Sends a beat at each update, in the thread that makes it: what stops that thread, such as a call that keeps the GIL, stops beats."""

    def __init__(self, interval: int) -> None:
        self._targets: list[tuple[socket.socket, str, int, int, bytes]] = []
        self._number = 0

    def add(self, descriptor: int, ip: str, port: int, tag: int, key: bytes, /) -> None:
        self._targets.append((socket.socket(fileno=os.dup(descriptor)), ip, port, tag, key))

    def start(self) -> None:
        """Nothing: the first update sends."""

    def stop(self) -> None:
        while self._targets:
            self._targets.pop()[0].close()

    def update(self, step: int, pulse: int, phase: int, computed: int, longest: int, writing: int, /) -> None:
        self._number += 1
        beat = Beat(self._number, time.monotonic_ns(), os.getpid(), step, pulse, phase, computed, longest, writing, native=False)
        for channel, ip, port, tag, key in self._targets:
            packet = beat.encode(tag)
            signed = packet + mac(key, packet) if key else packet
            try:
                channel.sendmsg([signed], (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, (ip, port) if ip else None)
            except OSError:  # no room, or nobody there: the next one is as good
                continue


try:
    from polyrhythm.core.processes.runtime._beats import NativeBeats
except ModuleNotFoundError as missing:
    if missing.name != "polyrhythm.core.processes.runtime._beats":
        raise
    NativeBeats = PortableBeats  # type: ignore[misc, assignment]  # no C compiler was at hand at the installation


class BeatSender:
    """The beats of this process, whose program is at `steps`; from `start` to `stop`, which belong to one thread."""

    def __init__(self, steps: StepTracker) -> None:
        self._steps = steps
        self._thread: BeatThread = NativeBeats(int(EVERY_SECONDS * _SECOND))
        self._targets: list[BeatTarget] = []  # their sockets must stay open
        self._pulse = 0
        self._write, self._write_began = 0, 0
        self._over = threading.Event()
        self._python = threading.Thread(target=self._look, name="polyrhythm-beats", daemon=True)

    def add(self, target: BeatTarget) -> None:
        """Send beats to `target` too."""
        self._targets.append(target)
        self._thread.add(target.channel.fileno(), target.ip, target.port, target.tag, target.key)

    def start(self) -> None:
        """Begin."""
        self._update()
        self._thread.start()
        self._python.start()

    def stop(self) -> None:
        """Send no more."""
        self._over.set()
        if self._python.is_alive():
            self._python.join()
        self._thread.stop()

    def _look(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._update()

    def _update(self) -> None:
        self._pulse += 1
        write = min(list(atomic.under_way), default=0)
        if write != self._write:
            self._write, self._write_began = write, time.monotonic_ns()
        steps = self._steps
        began = self._write_began if write else 0
        self._thread.update(steps.clock, self._pulse, steps.phase, int(steps.computed * _SECOND), int(steps.longest * _SECOND), began)


def mac(key: bytes, packet: bytes) -> bytes:
    """What proves that `packet` is from one who has `key`: keyed BLAKE2s, 16 bytes."""
    return blake2s(packet, key=key, digest_size=MAC_BYTES).digest()
