"""Reads a frame from a TUN device: its target, and how many bytes of it count on links.

A frame is the kernel's header for offloads (struct virtio_net_hdr of linux/virtio_net.h, 10 bytes) and an IPv4 packet.
With segmentation offload one frame is up to 64 KiB of a TCP stream: many packets that share one header.
"""

from __future__ import annotations

import struct

OFFLOAD_HEADER = 10
LARGEST = OFFLOAD_HEADER + 65536

_TCP, _UDP = 6, 17
_UDP_HEADER = 8
_NETWORK = bytes((10, 77, 0))
_SEGMENT_SIZE = struct.Struct("=4xH")

MOST_HOSTS = 250


def address(host: int) -> str:
    """The IPv4 address of a host."""
    return ".".join(map(str, (*_NETWORK, host + 1)))


def target(frame: bytes) -> int | None:
    """The number of the host that the frame is for; None if it is for none (IPv6, multicast, broadcast)."""
    if len(frame) < OFFLOAD_HEADER + 20 or frame[OFFLOAD_HEADER] >> 4 != 4 or frame[OFFLOAD_HEADER + 16 : OFFLOAD_HEADER + 19] != _NETWORK:
        return None
    return frame[OFFLOAD_HEADER + 19] - 1


def flow(frame: bytes) -> bytes:
    """The key of its connection: addresses, and for TCP and UDP the ports."""
    own = (frame[OFFLOAD_HEADER] & 15) * 4
    ports = frame[OFFLOAD_HEADER + own : OFFLOAD_HEADER + own + 4] if frame[OFFLOAD_HEADER + 9] in (_TCP, _UDP) else b""
    return frame[OFFLOAD_HEADER + 9 : OFFLOAD_HEADER + 10] + frame[OFFLOAD_HEADER + 12 : OFFLOAD_HEADER + 20] + ports


def payload(frame: bytes) -> int:
    """Bytes of the frame without the headers of IP and of TCP or UDP."""
    return len(frame) - OFFLOAD_HEADER - _headers(frame)


def on_the_line(frame: bytes) -> int:
    """Bytes of the frame as packets, each with its headers."""
    headers = _headers(frame)
    data = len(frame) - OFFLOAD_HEADER - headers
    size = _SEGMENT_SIZE.unpack_from(frame)[0] or data
    return data + headers * max(1, -(-data // size) if size else 1)


def _headers(frame: bytes) -> int:
    own = (frame[OFFLOAD_HEADER] & 15) * 4
    protocol = frame[OFFLOAD_HEADER + 9]
    if protocol == _TCP and len(frame) > OFFLOAD_HEADER + own + 12:
        return own + (frame[OFFLOAD_HEADER + own + 12] >> 4) * 4
    return own + (_UDP_HEADER if protocol == _UDP else 0)
