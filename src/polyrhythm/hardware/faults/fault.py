"""`Fault`: what can happen, and what runtimes ask about it: who is meant, where, and at which moment."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.hardware.faults.actors import Crash, Exit, HoldGIL, Join, KillWhileWriting, Leave, Segfault, SlowDisk, Stall
from polyrhythm.hardware.faults.checks import FIRST
from polyrhythm.hardware.faults.lines import DatagramFaults, Disconnect, Drop

Deadly = Crash | Segfault | Exit | KillWhileWriting
"""Faults after which the actor is gone."""
Loss = Drop | DatagramFaults
"""Faults by which messages do not arrive as they were sent."""
LineFault = Disconnect | Loss
Fault = Deadly | Stall | HoldGIL | SlowDisk | Leave | Join | LineFault


def places(fault: Fault) -> tuple[str, ...]:
    """The actors, hosts and sites that `fault` names."""
    match fault:
        case Disconnect():
            return fault.a, fault.b
        case Drop() | DatagramFaults():
            return fault.between or ()
        case Join():
            return ()
    return (fault.actor,)


def moment(fault: Fault) -> tuple[str, str]:
    """The actor and its moment, such as "step 20", after which `fault` begins; the moment is empty where it begins at a time."""
    match fault:
        case KillWhileWriting():
            return fault.actor, f"checkpoint {fault.checkpoint}"
        case Join() | Disconnect() | Drop() | DatagramFaults():
            return FIRST, "" if fault.step is None else f"step {fault.step}"
    return fault.actor, "" if fault.step is None else f"step {fault.step}"


def begins(fault: Fault) -> float | None:
    """The time at which `fault` begins; None where it waits for a moment."""
    match fault:
        case KillWhileWriting():
            return None
        case Drop() | DatagramFaults():
            return 0.0 if fault.at is None and fault.step is None else fault.at
    return fault.at


def resolved(fault: Fault, first: str) -> Fault:
    """`fault` with the name `first` in place of "first"."""
    if FIRST not in places(fault):
        return fault
    match fault:
        case Disconnect():
            return replace(fault, a=first if fault.a == FIRST else fault.a, b=first if fault.b == FIRST else fault.b)
        case Join() | Drop() | DatagramFaults():
            return fault
    return replace(fault, actor=first)


def remaining(fault: Fault, began: float) -> Fault | None:
    """The part of `fault` that a run which begins at `began` still meets, None for one that is over: of one that lasts, the rest."""
    at = begins(fault)
    if at is None or at >= began:
        return fault
    match fault:
        case Stall() | HoldGIL() | SlowDisk() | Disconnect() | Drop() | DatagramFaults() if at + fault.duration > began:
            return replace(fault, at=began, duration=at + fault.duration - began)
    return None


class AwaitedFaults:
    """The faults that wait for moments of actors; each is taken once. Both runtimes ask it when an actor has come to a moment."""

    def __init__(self, faults: list[Fault]) -> None:
        self._waiting: dict[tuple[str, str], list[Fault]] = {}
        for fault in faults:
            if begins(fault) is None:
                self._waiting.setdefault(moment(fault), []).append(fault)

    @property
    def moments(self) -> dict[str, list[str]]:
        """The moments that are still waited for, by actor."""
        found: dict[str, list[str]] = {}
        for actor, when in self._waiting:
            found.setdefault(actor, []).append(when)
        return found

    def take(self, actor: str, when: str, first: str) -> list[Fault]:
        """The faults that begin now that `actor` has come to the moment `when`, and `first` is the first worker, by its name."""
        names = [actor, FIRST] if actor == first else [actor]
        return [fault for name in names for fault in self._waiting.pop((name, when), [])]
