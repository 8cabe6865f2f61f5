"""The outcome of a run as data: the object that `--json` prints, the events behind it, and the final weights.

`training.run` and `training.join` make one and fill it during the run; records are written from it, and reports are made from it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.events import AnyEvent

OPTIONS = "options"
"""The entry of the settings with the options that a run's system was given, as JSON."""

State = Literal["running", "ended", "failed", "interrupted"]
"""The state of a run: `running` until the run changes that; the record of a killed run stays so unless another process completes it."""


class Summary(msgspec.Struct):
    """One run in numbers. `seconds` is real time (null in the simulator), `virtual_seconds` virtual time (null for real processes).

    `bytes_between_sites` are those of `bytes_sent` that went from one site of the simulator's network to another (null for real processes,
    and where collectives are charged in closed form). `row_writes` and `lost_writes` are null but for workers that wrote to shared weights
    without locks in real processes: how many rows they wrote, and how many of these writes others overwrote.

    `steps` counts those of the worker that took most, `samples` those of all workers. `error` is the sentence that explains why the run
    failed, `lost` the workers without which it continued. The record of a joined worker has the counts of the whole run too, once all have
    ended well; `seconds` and `final` are its own, and so are its counts before.
    `messages_sent` is None where a run has not ended: its events count bytes alone.
    """

    system: str
    workers: int
    on: str
    network: str | None
    seed: int
    steps: int = 0
    samples: int = 0
    seconds: float | None = None
    virtual_seconds: float | None = None
    bytes_sent: int = 0
    messages_sent: int | None = 0
    final: dict[str, float] = {}
    weights_sha256: str | None = None
    error: str | None = None
    lost: list[str] = []
    bytes_between_sites: int | None = None
    row_writes: int | None = None
    lost_writes: int | None = None


@dataclass(slots=True)
class Outcome:
    """A summary, the events behind it, the final weights by name, the state of the run, and remarks on damage to its record."""

    summary: Summary
    events: list[AnyEvent] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    state: State = "ended"
    remarks: list[str] = field(default_factory=list)

    @property
    def time(self) -> float:
        """Seconds that the run took, virtual or real."""
        summary = self.summary
        return (summary.virtual_seconds if summary.on == "simulator" else summary.seconds) or 0.0


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("polyrhythm", "torch", "numpy")}}
