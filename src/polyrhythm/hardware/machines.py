"""Compute time of one machine: from a device's speed, or a measured profile.

A fleet assigns machines to workers and slows them; `devices` has those that have a name, and reads files.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from polyrhythm.errors import CompositionError


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
