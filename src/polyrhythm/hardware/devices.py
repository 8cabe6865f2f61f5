"""Devices by name or from a file: machines, the terms on which they can be had, paces, and the machine of servers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from polyrhythm.core import units
from polyrhythm.core.typed_files import read_typed
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.device_presets import DEVICES as DEVICES
from polyrhythm.hardware.device_presets import TERMS
from polyrhythm.hardware.files import located
from polyrhythm.hardware.hours import Hours
from polyrhythm.hardware.machine_terms import PLAIN, MachineTerms
from polyrhythm.hardware.machines import Device as Device
from polyrhythm.hardware.machines import Machine as Machine
from polyrhythm.hardware.machines import Profile as Profile
from polyrhythm.hardware.paces import Pace, Paces
from polyrhythm.hardware.price_hours import PriceHours
from polyrhythm.hardware.segments import SPEED, Segment, Segments

FILE = "device.json"
"""The name of the profile in a directory of `polyrhythm calibrate`."""


class DeviceFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file: a name, and a speed, measured steps, or several machines, each a preset, a file next to this one, or written here.

    `paces` slow the workers; `server` is the machine of servers. `segments` are as `polyrhythm simulate --measure` writes them. A machine
    that begins as another is `like` that preset or file, and gives what differs: `count` of them, and the terms on which it can be had.
    """

    name: str
    flops: str | float | None = None
    overhead: str | float = 0.0
    seconds_per_step: float | list[float] | None = None
    seconds_per_contribution: float = 0.0
    segments: tuple[Segment, ...] = ()
    machines: list[str | DeviceFile] = []
    paces: Paces = []
    server: str | DeviceFile | None = None
    like: str | None = None
    count: int = 1
    memory: str | float | None = None
    watts: float | None = None
    worker_hour: float | None = None
    interruptions: float | None = None
    notice: str | float | None = None
    hours: tuple[Hours, ...] | None = None
    prices: tuple[PriceHours, ...] | None = None

    @property
    def given(self) -> int:
        """The number of ways to describe machines that the file uses."""
        own = (self.flops is not None or bool(self.segments)) + (self.seconds_per_step is not None)
        return own + bool(self.machines) + (self.like is not None)

    def terms(self, like: MachineTerms) -> MachineTerms:
        """The terms of this machine, which are those of another where it does not say otherwise."""
        return MachineTerms(
            like.memory if self.memory is None else units.size(self.memory),
            like.watts if self.watts is None else self.watts,
            like.worker_hour if self.worker_hour is None else self.worker_hour,
            like.interruptions if self.interruptions is None else self.interruptions,
            like.notice if self.notice is None else units.duration(self.notice),
            like.hours if self.hours is None else self.hours,
            like.prices if self.prices is None else self.prices,
        )


class DevicesGiven(NamedTuple):
    """The machines of a preset or file, the paces that slow them, the machine of servers if it is given, and the machines' terms."""

    machines: tuple[Machine, ...]
    paces: tuple[Pace, ...]
    server: Machine | None
    terms: tuple[MachineTerms, ...]


def load(path_or_name: str | Path) -> Machine:
    """The preset of that name, or the content of a JSON file: {"name", "flops", "overhead"} or {"name", "seconds_per_step"}.

    Measured steps may come with "seconds_per_contribution". A directory stands for its device.json, as `polyrhythm calibrate` writes it.
    Raises CompositionError for a file of several machines, or with paces: that is a fleet.
    """
    machines, paces, _, _ = load_all(path_or_name)
    if len(machines) > 1 or paces:
        raise CompositionError(f"{str(path_or_name)!r} is a fleet of machines and paces, and here is place for one machine: give one.")
    return machines[0]


def load_all(path_or_name: str | Path) -> DevicesGiven:
    """The machines of a preset's name or of a file, with all that it says of them."""
    text = str(path_or_name)
    if text in DEVICES:
        return DevicesGiven((DEVICES[text],), (), None, (TERMS[text],))
    path = located(path_or_name, FILE)
    if path is None:
        raise unknown("device", text, DEVICES)
    written = _read(path)
    found = [each for given in written.machines or (msgspec.structs.replace(written, paces=[]),) for each in _machines(given, path)]
    server = None if written.server is None else _machines(written.server, path)[0][0]
    return DevicesGiven(tuple(machine for machine, _ in found), tuple(written.paces), server, tuple(terms for _, terms in found))


def device_json(machine: Machine, terms: MachineTerms = PLAIN) -> str:
    """The description of `machine` and the terms on which it can be had, as a file for `load`."""
    written = msgspec.to_builtins(machine)
    if isinstance(machine, Device):
        written = {"name": machine.name, "flops": machine.flops, "overhead": machine.overhead_seconds}
    written |= msgspec.to_builtins(terms)
    return msgspec.json.format(msgspec.json.encode(written), indent=2).decode() + "\n"


def files_of(path_or_name: str | Path) -> list[Path]:
    """All files that make up the devices of a file; none for a preset's name."""
    path = None if str(path_or_name) in DEVICES else located(path_or_name, FILE)
    if path is None:
        return []
    written = _read(path)
    every = [written, *written.machines, *([] if written.server is None else [written.server])]
    named = [each if isinstance(each, str) else each.like for each in every]
    return [path, *(file for each in named if each is not None if (file := _other_file(each, path)) is not None)]


def _read(path: Path) -> DeviceFile:
    hint = (
        "It has name, and one of flops (with overhead), seconds_per_step, like and machines; paces, server, and memory, watts, "
        "worker_hour, interruptions, notice, hours and prices may be given too."
    )
    written = read_typed(path, DeviceFile, "device file", hint, "Give a file or a preset's name.")
    if written.given != 1:
        raise CompositionError(
            f"The device file {str(path)!r} must give flops or seconds_per_step or like or machines, and not several of them."
        )
    return written


def _machines(given: str | DeviceFile, file: Path) -> list[tuple[Machine, MachineTerms]]:
    """One machine of `file`, as often as it says: a preset, another file, or as it is written there; and its terms."""
    if isinstance(given, str):
        return [_named(given, file)]
    if given.machines or given.paces or given.given != 1 or given.count < 1:
        raise CompositionError(
            f"The machine {given.name!r} in the device file {str(file)!r} must give flops, seconds_per_step or like, and a count of 1 or "
            "more: machines and paces are listed once, in the file that is given."
        )
    if given.like is not None:
        machine, terms = _named(given.like, file)
        machine = msgspec.structs.replace(machine, name=given.name) if isinstance(machine, msgspec.Struct) else machine
    else:
        machine, terms = _own(given), PLAIN
    return [(machine, given.terms(terms))] * given.count


def _named(name: str, file: Path) -> tuple[Machine, MachineTerms]:
    """The one machine of a preset, or of another file."""
    other = _other_file(name, file)
    if other is None:
        return DEVICES[name], TERMS[name]
    return _machines(_read(other), other)[0]


def _own(given: DeviceFile) -> Machine:
    """The machine as it is written."""
    if given.segments:
        return Segments(given.name, given.segments, SPEED if given.flops is None else units.speed(given.flops))
    if given.flops is not None:
        return Device(given.name, units.speed(given.flops), units.duration(given.overhead))
    steps = given.seconds_per_step
    return Profile(given.name, tuple(steps) if isinstance(steps, list) else (steps or 0.0,), given.seconds_per_contribution)


def _other_file(name: str, file: Path) -> Path | None:
    """The file that `file` names, from where that is; None for a preset."""
    if name in DEVICES:
        return None
    if located(name, FILE) is None and not (file.parent / name).exists():
        raise unknown("device", name, DEVICES)
    return located(file.parent / name, FILE)
