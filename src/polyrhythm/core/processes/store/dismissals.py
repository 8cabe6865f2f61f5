"""The ways in which an attempt to be received by a store can be in vain."""

from __future__ import annotations

from typing import ClassVar


class Dismissed(Exception):
    """An attempt was in vain, for the reason that is its text; `remedy` is what to do about it."""

    remedy: ClassVar[str]


class Absent(Dismissed):
    """Nobody listens there, or nobody knows yet where the store is."""

    remedy = "Look whether worker/0 has started and is still alive, and start all processes with the same MASTER_ADDR and MASTER_PORT."


class Silent(Dismissed):
    """Nothing came in time."""

    remedy = "Look whether the address is that of worker/0's host, and whether a firewall lets its port through."


class Unproven(Dismissed):
    """The two could not authenticate each other."""

    remedy = (
        "One of the two does not have the secret of the other, or something else listens there: start all processes with the same "
        "POLYRHYTHM_SECRET, MASTER_ADDR and MASTER_PORT."
    )


class Busy(Dismissed):
    """The store knows this process, and cannot receive it now."""

    remedy = "Look whether two processes were started with the same rank, or processes of an earlier run are left."


class Unexpected(Dismissed):
    """The store knows this process, and will never receive it."""

    remedy = "Start all processes with the same number of workers."


class GivenUp(Dismissed):
    """The rendezvous has failed before this process came."""

    remedy = "Look at the process that failed first."
