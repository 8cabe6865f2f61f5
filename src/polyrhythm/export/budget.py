"""A budget of a device: bytes of the file, seconds of one sample, and bytes of memory that the model may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.core.units import duration, show_bytes, show_seconds
from polyrhythm.core.units import size as bytes_of
from polyrhythm.errors import CompositionError, ExportError, unknown
from polyrhythm.export.export_report import ExportReport

_EXAMPLE = "size=2MB,latency=10ms,memory=50MB"


@dataclass(frozen=True, slots=True)
@checked
class DeviceBudget:
    """What a model may take: `size` and `memory` in bytes, `latency` in seconds of one sample; None where anything will do.

    Examples:
        >>> DeviceBudget.parse("size=2MB,latency=10ms")
        DeviceBudget(size=2000000.0, latency=0.01, memory=None)
    """

    size: float | None = None
    latency: float | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        for name in ("size", "latency", "memory"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise CompositionError(f"DeviceBudget({name}={value}) leaves nothing: give more than 0, or leave it out.")

    @classmethod
    def parse(cls, text: str) -> DeviceBudget:
        """The budget that text such as "size=2MB,latency=10ms,memory=50MB" means. Raises CompositionError for other text."""
        found: dict[str, float] = {}
        for part in text.split(","):
            name, equals, value = (each.strip() for each in part.partition("="))
            if not equals or not value:
                raise CompositionError(f"{text!r} is no budget: write it as {_EXAMPLE!r}, or a part of that.")
            if name not in ("size", "latency", "memory"):
                raise unknown("part of a budget", name, ["size", "latency", "memory"])
            found[name] = duration(value) if name == "latency" else bytes_of(value)
        return cls(**found)

    def __str__(self) -> str:
        given = [("size", self.size, show_bytes), ("latency", self.latency, show_seconds), ("memory", self.memory, show_bytes)]
        return ", ".join(f"{name} {show(value)}" for name, value, show in given if value is not None)

    def check(self, report: ExportReport) -> None:
        """Raise ExportError if the model of `report` is over the budget; the message has all that it is over, and by how much."""
        if over := list(self._over(report)):
            raise ExportError(
                f"{report.file} is over its budget: {'; '.join(over)}. Quantise it (--int8 static, StaticInt8), train a smaller model, or "
                "raise the budget. Nothing was written."
            )

    def _over(self, report: ExportReport) -> Iterator[str]:
        if self.size is not None and report.nbytes > self.size:
            yield f"it has {show_bytes(report.nbytes)} of {show_bytes(self.size)} ({report.nbytes / self.size:.2f} times)"
        seconds, where = report.latency
        if self.latency is not None and seconds > self.latency:
            yield f"a sample takes {show_seconds(seconds)} of {show_seconds(self.latency)} {where} ({seconds / self.latency:.2f} times)"
        if self.memory is not None and report.memory > self.memory:
            yield f"it needs {show_bytes(report.memory)} of memory of {show_bytes(self.memory)} ({report.memory / self.memory:.2f} times)"
