"""`Trace`: preemptions that are replayed from a file of JSON lines, such as those of spot instances that lie in `hardware/traces`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from polyrhythm.core.settings import checked
from polyrhythm.core.streams import stream
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.faults.actors import Crash, Join, Leave
from polyrhythm.hardware.faults.crew_names import CrewNames, Newcomers

TRACES = Path(__file__).parent.parent / "traces"


class TraceLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What happens at the time `at`, in seconds: to `actor`, or to `count` workers that are drawn; `zone` is for readers."""

    at: float
    kind: Literal["leave", "crash", "join"]
    actor: str | None = None
    count: int = 1
    notice: float = 0.0
    zone: str = ""


@dataclass(frozen=True, slots=True)
@checked
class Trace:
    """The preemptions and newcomers of a file, or of one that comes with the package, by its name ("spot-calm", "spot-bursty").

    A line without an actor is about workers that the seed draws from those that are there; one worker always stays. Times are divided by
    `speed`. Lines that begin with "#" are skipped. Raises UnknownNameError for a file that does not exist, CompositionError for one that
    is no trace.
    """

    path: str | Path
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.speed < math.inf:
            raise CompositionError(f"{self} has no speed: give a finite number above 0, 60 for an hour in a minute.")
        self.lines()

    def lines(self) -> list[TraceLine]:
        """The lines of the file by time, with their own times."""
        text, found = self._text(), list[TraceLine]()
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                found.append(msgspec.json.decode(line, type=TraceLine))
                if found[-1].at < 0 or found[-1].count < 1 or found[-1].notice < 0:
                    raise ValueError("times are 0 or more, counts 1 or more")
            except (ValueError, msgspec.MsgspecError) as problem:
                raise CompositionError(
                    f'Line {number} of the trace {self.path} cannot be used ({problem}): write such as {{"at": 5, "kind": "leave"}}.'
                ) from None
        return sorted(found, key=lambda line: line.at)

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Crash | Leave | Join]:
        """The faults of the trace among `actors`, and those who join."""
        crew, draws, found = CrewNames(newcomers, actors), stream(seed, "faults", "trace", place), list[Crash | Leave | Join]()
        for line in self.lines():
            at, notice = line.at / self.speed, line.notice / self.speed
            if line.kind == "join":
                found += [Join(at)] * line.count
                for _ in range(line.count):
                    crew.join()
                continue
            present = crew.present
            if line.actor is None:
                chosen = [present[int(k)] for k in draws.permutation(len(present))[: min(line.count, len(present) - 1)]]
            else:
                chosen = [line.actor]
            for actor in chosen:
                crew.leave(actor) if line.kind == "leave" else crew.lose(actor)
            found += [Leave(actor, at, notice or math.inf) if line.kind == "leave" else Crash(actor, at) for actor in chosen]
        return found

    def _text(self) -> str:
        known = {path.stem: path for path in sorted(TRACES.glob("*.jsonl"))}
        path = Path(known.get(str(self.path), self.path))
        if not path.is_file():
            raise unknown("trace or file", str(self.path), known)
        return path.read_text()
