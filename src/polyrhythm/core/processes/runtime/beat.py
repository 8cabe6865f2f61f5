"""A beat: the few numbers that a process sends ten times a second, and its packet, which `_beats.c` and `PortableBeats` make."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

EVERY_SECONDS = 0.1
_PACKET = struct.Struct("<2I9q")
NBYTES = _PACKET.size


@dataclass(frozen=True, slots=True)
class Beat:
    """A beat; times are nanoseconds of the sender's CLOCK_MONOTONIC.

    `pulse` counts what a thread of Python does, if the beat is `native`, which means that its thread needs no GIL. `phase` is when the
    program began to compute, or, if negative, to wait in a call of the library; 0 before both. `computed` are all nanoseconds of computing
    until then, `longest` those of the longest time between two calls. `writing` is when the write to a disk that lasts longest began, or 0.
    """

    number: int
    sent: int
    pid: int
    step: int = 0
    pulse: int = 0
    phase: int = 0
    computed: int = 0
    longest: int = 0
    writing: int = 0
    native: bool = True

    def encode(self, tag: int = 0) -> bytes:
        """The packet of this beat, as `_beats.c` makes it; `tag` is what the receiver knows its sender by."""
        counts = self.number, self.sent, self.pid, self.step, self.pulse
        return _PACKET.pack(tag, self.native, *counts, self.phase, self.computed, self.longest, self.writing)


def decode(packet: bytes) -> tuple[int, Beat]:
    """The tag and the beat of a packet of `NBYTES` bytes."""
    tag, native, *numbers = _PACKET.unpack(packet)
    return tag, replace(Beat(*numbers), native=bool(native))
