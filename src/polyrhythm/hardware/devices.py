"""Compute time of a worker: from a device's speed or a measured profile, times the slowdown of this worker at this step.

The presets' `flops` are SUSTAINED figures for fp32 training, a stated part of the vendor's peak, and estimates: convolutions
and matrix products of training commonly reach 40 to 70 % of a GPU's fp32 peak, 20 to 30 % of a CPU's. Where it matters,
measure a step and use a `Profile`.

    name            peak fp32 (source)                                                      part    sustained
    cpu-core        96 GFLOPS (3 GHz x 32: two 8-wide AVX2 multiply-adds a cycle)           0.25    24 GFLOPS
    laptop          four such cores                                                         0.25    96 GFLOPS
    raspberry-pi-4  48 GFLOPS (4 x 1.5 GHz x 8, Cortex-A72 NEON)                            0.20    9.6 GFLOPS
    t4              8.1 TFLOPS (NVIDIA T4 datasheet; power-limited in practice)             0.50    4.05 TFLOPS
    v100            15.7 TFLOPS (V100 SXM2 datasheet)                                       0.60    9.4 TFLOPS
    a100            19.5 TFLOPS (A100 datasheet, TF32 off)                                  0.65    12.7 TFLOPS
    h100            67 TFLOPS (H100 SXM datasheet, TF32 off)                                0.55    36.9 TFLOPS
    rtx-3090        35.6 TFLOPS (GA102 white paper)                                         0.45    16 TFLOPS
    rtx-4090        82.6 TFLOPS (Ada white paper)                                           0.45    37.2 TFLOPS

`overhead_seconds` is what a step costs however small the model: Python and, on GPUs, some hundred kernel launches of about
10 µs. Also an estimate: 0.5 ms on a CPU core, 2 ms on a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from polyrhythm.core import units
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.files import located
from polyrhythm.hardware.paces import Pace, Paces
from polyrhythm.hardware.segments import SPEED, Segment, Segments

FILE = "device.json"
"""The name of the profile in a directory of `polyrhythm calibrate`."""


class Machine(Protocol):
    """A device or a profile: it charges seconds for steps, and for other work, of `flops` floating-point operations."""

    @property
    def name(self) -> str:
        """The machine's name in tables."""

    @property
    def measured(self) -> bool:
        """True if it charges whole steps as they were measured, instead of counted operations."""

    @property
    def segmented(self) -> bool:
        """True if it charges parts of steps as they were measured."""

    def segment(self, begin: str, end: str) -> float | None:
        """The measured seconds from one place of a program, where it waits, to the next; None where there are none."""

    def step_seconds(self, flops: float, step: int) -> float:
        """The seconds of the step numbered `step`."""

    def seconds(self, flops: float) -> float:
        """The seconds of other work, such as building a model; 0 where steps were measured, which include it."""

    def merge_seconds(self, contributions: int) -> float:
        """The seconds that decoding and merging `contributions` takes."""


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device that sustains `flops` floating-point operations per second, after `overhead_seconds` for every step."""

    name: str
    flops: float
    overhead_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.flops > 0 or self.overhead_seconds < 0:
            raise CompositionError(
                f"The device {self.name!r} has {self.flops} FLOP/s and {self.overhead_seconds} s of overhead. "
                "The speed must be above zero and the overhead not below."
            )

    @property
    def measured(self) -> bool:
        """No: it counts operations."""
        return False

    @property
    def segmented(self) -> bool:
        """No."""
        return False

    def segment(self, begin: str, end: str) -> None:
        """None."""
        return

    def step_seconds(self, flops: float, step: int) -> float:
        """The overhead, and the operations over the speed."""
        return self.overhead_seconds + flops / self.flops

    def seconds(self, flops: float) -> float:
        """The operations over the speed."""
        return flops / self.flops

    def merge_seconds(self, contributions: int) -> float:
        """Zero, since a device does not count merging."""
        return 0.0


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measured step times, charged in rotation, independent of operations and samples.

    `seconds_per_contribution` is the time of merging a contribution, which is not in the steps: at a server, and under `AllToAll` at a
    worker.
    """

    name: str
    seconds_per_step: tuple[float, ...]
    seconds_per_contribution: float = 0.0

    def __post_init__(self) -> None:
        if self.seconds_per_contribution < 0:
            raise CompositionError(
                f"The profile {self.name!r} has {self.seconds_per_contribution} seconds per contribution: give 0 or more."
            )
        if not self.seconds_per_step or min(self.seconds_per_step) < 0:
            raise CompositionError(f"The profile {self.name!r} needs the seconds of at least one step, none of them negative.")

    @property
    def measured(self) -> bool:
        """True: a profile charges the steps that were measured."""
        return True

    @property
    def segmented(self) -> bool:
        """No."""
        return False

    def segment(self, begin: str, end: str) -> None:
        """None."""
        return

    def step_seconds(self, flops: float, step: int) -> float:
        """The seconds that the step took when it was measured."""
        return self.seconds_per_step[step % len(self.seconds_per_step)]

    def seconds(self, flops: float) -> float:
        """Zero, since measured steps include that work."""
        return 0.0

    def merge_seconds(self, contributions: int) -> float:
        """The measured seconds of a contribution, times the contributions."""
        return self.seconds_per_contribution * contributions


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device("cpu-core", 96e9 * 0.25, 0.5e-3),
        Device("laptop", 4 * 96e9 * 0.25, 0.5e-3),
        Device("raspberry-pi-4", 48e9 * 0.20, 2e-3),
        Device("t4", 8.1e12 * 0.50, 2e-3),
        Device("v100", 15.7e12 * 0.60, 2e-3),
        Device("a100", 19.5e12 * 0.65, 2e-3),
        Device("h100", 67e12 * 0.55, 2e-3),
        Device("rtx-3090", 35.6e12 * 0.45, 2e-3),
        Device("rtx-4090", 82.6e12 * 0.45, 2e-3),
    )
}


class DeviceFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file: a name, and a speed, measured steps, or several machines, each a preset, a file next to this one, or written here.

    `paces` slow the workers; `server` is the machine of servers. `segments` are as `polyrhythm simulate --measure` writes them.
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

    @property
    def given(self) -> int:
        """The number of ways to describe machines that the file uses."""
        return (self.flops is not None or bool(self.segments)) + (self.seconds_per_step is not None) + bool(self.machines)


def load(path_or_name: str | Path) -> Machine:
    """The preset of that name, or the content of a JSON file: {"name", "flops", "overhead"} or {"name", "seconds_per_step"}.

    Measured steps may come with "seconds_per_contribution". A directory stands for its device.json, as `polyrhythm calibrate` writes it.
    Raises CompositionError for a file of several machines, or with paces: that is a fleet.
    """
    machines, paces, _ = load_all(path_or_name)
    if len(machines) > 1 or paces:
        raise CompositionError(f"{str(path_or_name)!r} is a fleet of machines and paces, and here is place for one machine: give one.")
    return machines[0]


def load_all(path_or_name: str | Path) -> tuple[tuple[Machine, ...], tuple[Pace, ...], Machine | None]:
    """The machines of a preset's name or of a file, the paces that slow them, and that of servers, if it is given."""
    text = str(path_or_name)
    if text in DEVICES:
        return (DEVICES[text],), (), None
    path = located(path_or_name, FILE)
    if path is None:
        raise unknown("device", text, DEVICES)
    written = _read(path)
    machines = tuple(_machine(each, path) for each in written.machines or (msgspec.structs.replace(written, paces=[]),))
    return machines, tuple(written.paces), None if written.server is None else _machine(written.server, path)


def device_json(machine: Machine) -> str:
    """The description of `machine`, as a file for `load`."""
    written: object = machine
    if isinstance(machine, Device):
        written = {"name": machine.name, "flops": machine.flops, "overhead": machine.overhead_seconds}
    return msgspec.json.format(msgspec.json.encode(written), indent=2).decode() + "\n"


def files_of(path_or_name: str | Path) -> list[Path]:
    """All files that make up the devices of a file; none for a preset's name."""
    path = None if str(path_or_name) in DEVICES else located(path_or_name, FILE)
    if path is None:
        return []
    written = _read(path)
    named = [*written.machines, *([] if written.server is None else [written.server])]
    return [path, *(file for each in named if isinstance(each, str) if (file := _other_file(each, path)) is not None)]


def _read(path: Path) -> DeviceFile:
    try:
        written = msgspec.json.decode(path.read_bytes(), type=DeviceFile)
    except OSError as problem:
        raise CompositionError(
            f"The device file {str(path)!r} cannot be read: {problem.strerror}. Give a file or a preset's name."
        ) from problem
    except msgspec.MsgspecError as problem:
        raise CompositionError(
            f"The device file {str(path)!r} cannot be used: {problem}. It has name, and one of flops (with overhead), seconds_per_step and "
            "machines; paces and server may be given too."
        ) from problem
    if written.given != 1:
        raise CompositionError(f"The device file {str(path)!r} must give flops or seconds_per_step or machines, and not several of them.")
    return written


def _machine(given: str | DeviceFile, file: Path) -> Machine:
    """One machine of `file`: a preset, another file, or as it is written there."""
    if isinstance(given, str):
        other = _other_file(given, file)
        if other is None:
            return DEVICES[given]
        given = _read(other)
    if given.machines or given.paces or given.given != 1:
        raise CompositionError(
            f"The machine {given.name!r} in the device file {str(file)!r} must give flops or seconds_per_step: machines and paces are "
            "listed once, in the file that is given."
        )
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
