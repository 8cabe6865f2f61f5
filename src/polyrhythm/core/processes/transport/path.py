"""The system's measurements of a TCP connection, and what it may send at once."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_FIRST_WINDOW = 10
"""Packets that a connection may send before anything has come back (RFC 6928), and again after a long silence (RFC 5681, 4.1)."""

# offsets in Linux's struct tcp_info (include/uapi/linux/tcp.h), which only ever grows at its end
_FIELDS = {
    "timeout": (8, "<I"),
    "segment": (16, "<I"),
    "busy": (168, "<Q"),
    "resent": (208, "<Q"),
    "silence": (44, "<I"),
    "window": (80, "<I"),
    "least": (148, "<I"),
    "rate": (160, "<Q"),
    "room": (228, "<I"),
}
_KNOWN = 232
_UNKNOWN = (1 << 32) - 1
_PACED = (b"bbr",)
"""Congestion controls that hold on to what they know of the path through a silence."""


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """The least round trip in seconds, the bytes per second that were delivered last, and the bytes that may be on the way now.

    `busy` are the seconds for which something was under way so far, `resent` the bytes that were sent again.

    That `window` is the congestion window, or the room that the receiver offers where that is less: the system lets it grow with
    what a round trip brings, so that on a short path a reader that comes late finds the sender waiting.
    """

    round_trip: float
    rate: float
    window: float
    busy: float = 0.0
    resent: int = 0


def measure(connection: socket.socket) -> PathEstimate | None:
    """The path of a connection; None where it is local, or the system does not report it."""
    if connection.family == socket.AF_UNIX:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    except OSError:
        return None
    if len(info) < _KNOWN:
        return None
    seen = {name: struct.unpack_from(form, info, at)[0] for name, (at, form) in _FIELDS.items()}
    if not seen["segment"] or seen["least"] == _UNKNOWN:
        return None
    packets = seen["window"]
    if control not in _PACED:
        packets = after_silence(packets, seen["silence"] / 1e3, seen["timeout"] / 1e6)
    window = float(min(packets * seen["segment"], seen["room"]))
    return PathEstimate(seen["least"] / 1e6, float(seen["rate"]), window, seen["busy"] / 1e6, seen["resent"])


def after_silence(packets: int, silence: float, timeout: float) -> int:
    """The window of a connection that has sent nothing for `silence` seconds: half for every retransmission timeout, down to the first."""
    halvings = min(int(silence / timeout), packets.bit_length()) if timeout else 0
    return max(packets >> halvings, min(packets, _FIRST_WINDOW))
