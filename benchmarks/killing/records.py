"""The steps and samples of a worker process, in a file that a kill cannot lose; `ledger` compares those of all with the data.

Training functions write with a `StepRecord`, and benchmarks read all of a folder with `read`. Times are those of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Use = tuple[int, int]
"""An epoch, and the number of a sample."""


class StepRecord:
    """Writes that a step begins with some samples, and that it has ended; a step that does not end has no effect, or an unknown one."""

    def __init__(self, folder: str | Path) -> None:
        self._file = os.open(Path(folder, f"{os.getpid()}.steps"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def begin(self, epoch: int, samples: Iterable[int]) -> None:
        """A step with these samples begins."""
        os.write(self._file, f"begin {time.monotonic()} {epoch} {' '.join(map(str, samples))}\n".encode())

    def end(self) -> None:
        """The step that has begun is completed."""
        os.write(self._file, f"end {time.monotonic()}\n".encode())


@dataclass(slots=True)
class ProcessSteps:
    """What the process `pid` has done: when its steps ended, the samples of each, and those of a step that was `open` at its end."""

    pid: int
    ends: list[float] = field(default_factory=list)
    used: list[tuple[Use, ...]] = field(default_factory=list)
    open: tuple[Use, ...] = ()
    begun: float = 0.0

    def take(self, line: str) -> None:
        """Take in one line."""
        what, at, *rest = line.split()
        if what == "begin":
            epoch, *samples = map(int, rest)
            self.open, self.begun = tuple((epoch, each) for each in samples), float(at)
        else:
            self.ends.append(float(at))
            self.used.append(self.open)
            self.open = ()


def read(folder: str | Path) -> list[ProcessSteps]:
    """The records of all processes, in the order of their first steps."""
    found = []
    for path in Path(folder).glob("*.steps"):
        steps = ProcessSteps(int(path.stem))
        for line in path.read_text().splitlines():
            steps.take(line)
        found.append(steps)
    return sorted(found, key=lambda steps: (steps.ends[:1] or [steps.begun], steps.pid))


@dataclass(frozen=True, slots=True)
class Ledger:
    """How often samples were used: `lost` were in no step, `doubled` in several that were completed, each counted so often as it is too
    many. `again` were in a step of a killed process whose end is not known, and in another step. `partial` belong to such a step of which
    some samples were used again and some were not. `left` were in no step either, and are fewer in an epoch than there are workers, as at
    the end of a pass whose samples are not a multiple of these; those of a step whose other samples were used again may be among them.
    """

    uses: int
    left: int
    lost: int
    doubled: int
    again: int
    partial: int

    @property
    def whole(self) -> bool:
        """True if each sample was used once in each epoch."""
        return not (self.lost or self.doubled or self.partial)


def ledger(processes: Sequence[ProcessSteps], epochs: int, samples: int, workers: int, killed: Container[int] = ()) -> Ledger:
    """Compare the steps of all processes with so many passes through the data, of so many `workers` at most.

    The last step of one that was `killed` may be undone where the others had not completed it: then it counts as an open one.
    """
    counts = Counter(use for each in processes for step in each.used for use in step)
    undone = [each.used[-1] for each in processes if each.pid in killed and each.used and min(counts[use] for use in each.used[-1]) > 1]
    counts -= Counter(use for step in undone for use in step)
    opened = [*undone, *(each.open for each in processes if each.open)]
    maybe = {use for step in opened for use in step}
    again = [sum(use in counts for use in step) for step in opened]
    spare = {use for step, count in zip(opened, again, strict=True) if 0 < count < len(step) for use in step if use not in counts}
    unused = [{use for each in range(samples) if (use := (epoch, each)) not in counts and use not in maybe} for epoch in range(epochs)]
    missing = [len(of_none) + sum(use[0] == epoch for use in spare) for epoch, of_none in enumerate(unused)]
    return Ledger(
        counts.total(),
        left=sum(each for each in missing if each < workers),
        lost=sum(each for each in missing if each >= workers),
        doubled=counts.total() - len(counts),
        again=sum(again),
        partial=sum(
            len(step) for step, count in zip(opened, again, strict=True) if 0 < count < len(step) and missing[step[0][0]] >= workers
        ),
    )
