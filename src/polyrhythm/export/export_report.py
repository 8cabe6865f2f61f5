"""The report of an export: what was written, how far it is from torch, and what it takes."""

from __future__ import annotations

import msgspec

from polyrhythm.core.units import show_bytes, show_seconds


class TensorShape(msgspec.Struct, frozen=True):
    """An input or output: its name, its type, and a size for each dimension, or a name where any size will do."""

    name: str
    dtype: str
    shape: list[int | str]


class ExportReport(msgspec.Struct, frozen=True):
    """A written model in numbers; report.json has them, as `--json` prints them.

    `difference` is the largest between its outputs and torch's for the example, and `agreement` the share of rows of the first output whose
    largest entry is at the same place. `median_seconds` and `p99_seconds` are of `runs` calls with one sample, on one thread of this
    machine, and `memory` is what their process grew by. `flops` are of one sample, and `device_seconds` what they take on `device`, if one
    was given. `budget` is what was checked.
    """

    file: str
    target: str
    inputs: list[TensorShape]
    outputs: list[str]
    parameters: int
    flops: int
    nbytes: int
    difference: float
    agreement: float
    runs: int
    median_seconds: float
    p99_seconds: float
    memory: int
    device: str | None = None
    device_seconds: float | None = None
    budget: str | None = None

    @property
    def latency(self) -> tuple[float, str]:
        """The seconds of one sample that count: on the device that was given, otherwise the 99th percentile here; and where that is."""
        if self.device_seconds is not None:
            return self.device_seconds, f"on {self.device}, by its speed"
        return self.p99_seconds, "here, at the 99th percentile"

    def rows(self) -> list[tuple[str, str]]:
        """The report as names and values, for people."""
        shapes = ", ".join(f"{each.name} {each.dtype} ({', '.join(map(str, each.shape))})" for each in self.inputs)
        found = [
            ("file", f"{self.file}, {show_bytes(self.nbytes)}"),
            ("inputs", shapes),
            ("outputs", ", ".join(self.outputs)),
            ("parameters", f"{self.parameters:,}"),
            ("from torch", f"at most {self.difference:.2g}; the same largest entry in {self.agreement:.1%} of rows"),
            (
                "one sample",
                f"median {show_seconds(self.median_seconds)}, p99 {show_seconds(self.p99_seconds)} of {self.runs} runs, one thread",
            ),
            ("memory", f"{show_bytes(self.memory)} beside the runtime's libraries"),
        ]
        if self.device is not None and self.device_seconds is not None:
            found.append((f"on {self.device}", f"{show_seconds(self.device_seconds)} a sample, {self.flops:,} operations by its speed"))
        if self.budget is not None:
            found.append(("budget", f"{self.budget}: kept"))
        return found
