"""The settings of the lab's processes, sent when they start as one line of JSON on their standard input."""

from __future__ import annotations

import msgspec

from polyrhythm.tools.emulation.impairments import Impairments


class HostOrders(msgspec.Struct, frozen=True):
    """Orders to a host: its number among `hosts`, the command, variables to add, and descriptors to the relay and for refusals."""

    host: int
    hosts: int
    command: list[str]
    environment: dict[str, str]
    congestion: str
    together: bool
    relay: int
    refusal: int
    parent: int


class RelayOrders(msgspec.Struct, frozen=True):
    """Orders to the relay: the network as `network_json` writes it, and a descriptor to each host."""

    network: str
    hosts: list[int]
    impairments: Impairments
    count_headers: bool


def read_line() -> bytes:
    """The first line of standard input, and not a byte more, so that its end can still be waited for."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()
