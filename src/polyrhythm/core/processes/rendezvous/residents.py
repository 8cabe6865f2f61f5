"""What the processes of a crew that changes say to each other at the door: who comes, and who is there."""

from __future__ import annotations

import msgspec

from polyrhythm.core.kernel.agreement import Facts, difference
from polyrhythm.core.kernel.names import FIRST
from polyrhythm.core.kernel.view import View
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.errors import CompositionError


class Resident(msgspec.Struct, frozen=True):
    """A process of the run: its `address`, and its site and host by names."""

    address: Address
    site: str
    host: str


class Call(msgspec.Struct, frozen=True):
    """What a process says that wants to join: the `facts` that must be equal at all, and where it is."""

    facts: dict[str, str]
    resident: Resident


class Admission(msgspec.Struct, frozen=True):
    """What it is given: its `name`, the run's `secret` and `seconds` on its clock, the sites and hosts of the `founders`, who is there.

    The `residents` are the members of the `view`, this process, and others that wait to be admitted.
    """

    name: str
    secret: str
    seconds: float
    founders: list[tuple[str, str]]
    view: View
    residents: dict[str, Resident]


def different(facts: Facts, call: Call, name: str) -> CompositionError | None:
    """The error for a caller who was started with something else than the first member, and would be `name`; None if all is the same."""
    found = difference({FIRST: facts, name: call.facts})
    return None if found is None else CompositionError(f"{found}: start all workers with the same.")
