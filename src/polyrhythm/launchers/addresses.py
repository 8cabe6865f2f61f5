"""The address by which other hosts know this one."""

from __future__ import annotations

import socket

_ANYWHERE = ("192.0.2.1", 9)  # reserved for documentation (RFC 5737): on no network, so that the default route leads to it


def outward_address() -> str:
    """The address of the interface that the default route leaves by; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANYWHERE)  # sends nothing: only looks up the route
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
