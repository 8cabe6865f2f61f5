"""The outcome of a run as data: the object that `--json` prints, and the directory that keeps it."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import save_file
from torch import Tensor

from polyrhythm.kernel.events import AnyEvent


class Summary(msgspec.Struct):
    """One run in numbers. `seconds` is real time (null in the simulator), `virtual_seconds` virtual time (null for real processes).

    `steps` counts those of the worker that took most, `samples` those of all workers. `error` is the sentence with which a run
    failed, `lost` the workers that it went on without.
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
    messages_sent: int = 0
    final: dict[str, float] = {}
    weights_sha256: str | None = None
    error: str | None = None
    lost: list[str] = []


@dataclass(slots=True)
class Outcome:
    """A summary, the events behind it, and the final weights by name."""

    summary: Summary
    events: list[AnyEvent] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def time(self) -> float:
        """Seconds that the run took, virtual or real."""
        summary = self.summary
        return (summary.virtual_seconds if summary.on == "simulator" else summary.seconds) or 0.0

    def save(self, directory: str | Path) -> Path:
        """Write run.json, events.jsonl and weights.safetensors into `directory`, which is made if it is missing."""
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        document = {"summary": self.summary, "settings": self.settings, "versions": versions()}
        (path / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        write_events(path / "events.jsonl", self.events)
        if self.weights:
            save_file(self.weights, path / "weights.safetensors")
        return path


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("polyrhythm", "torch", "numpy")}}


def write_events(path: Path, events: Iterable[AnyEvent]) -> None:
    """One JSON object a line."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for event in events:
            file.write(encoder.encode(event) + b"\n")


def load(directory: str | Path) -> Outcome:
    """Read a run directory again (without its weights)."""
    path = Path(directory)
    document: dict[str, Any] = msgspec.json.decode((path / "run.json").read_bytes())
    lines = (path / "events.jsonl").read_bytes().splitlines()
    decoder = msgspec.json.Decoder(AnyEvent)
    return Outcome(msgspec.convert(document["summary"], Summary), [decoder.decode(line) for line in lines], {}, document["settings"])
