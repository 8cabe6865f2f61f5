"""The faults that befall workers at random times, and the process that each met."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """What happens to a process."""

    KILL = "SIGKILL"
    STOP = "SIGSTOP"
    """It continues after 0.5 to 5 seconds."""
    FREEZE = "SIGSTOP for good"
    HOLD = "held GIL"
    """For 0.5 to 5 seconds."""
    TERM = "SIGTERM"


@dataclass(slots=True)
class Strike:
    """A fault of the process `pid` of `name`, from `at` to `until` on CLOCK_MONOTONIC, where `present` workers took steps.

    `alone`: no other had come just before. `again` is true for what was done to one that the same run had stopped, or held, before.
    """

    kind: Kind
    name: str
    pid: int
    at: float
    until: float
    present: int
    alone: bool = True


@dataclass(slots=True)
class Striker:
    """Has faults befall processes: of `wanted`, so many of each kind are still to come, which go down; one SIGTERM at most.

    `present` gives the workers that take steps, by name; `find` the process of one. `folder` has the pipes of `job.hold_on_demand`.
    """

    dice: random.Random
    wanted: dict[Kind, int]
    folder: str
    present: Callable[[], list[str]]
    find: Callable[[str], int | None]
    strikes: list[Strike] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def strike(self) -> None:
        """One fault; one kill of four is followed by another within 60 ms."""
        over = {Kind.TERM} & {each.kind for each in self.strikes}  # nobody comes in the place of one that has left
        left = {kind: count for kind, count in self.wanted.items() if count > 0 and kind not in over}
        if not left:
            return
        kind = self.dice.choices([*left], [count * (1 + 2 * (kind is Kind.TERM)) for kind, count in left.items()])[0]
        self._befall(kind)
        if kind is Kind.KILL and self.wanted[kind] > 0 and self.dice.random() < 1 / 4:
            time.sleep(self.dice.uniform(0.0, 0.06))
            self._befall(kind, alone=False)

    def _befall(self, kind: Kind, alone: bool = True) -> None:
        present = [name for name in self.present() if name not in self.gone]
        if len(present) < 2:
            return
        name = self.dice.choice(present)
        seconds = self.dice.uniform(0.5, 5.0) if kind in (Kind.STOP, Kind.HOLD) else 0.0
        if (pid := self.find(name)) is None:
            return
        at = time.monotonic()
        with suppress(OSError):  # it has ended meanwhile
            self._do(kind, pid, seconds)
            self.wanted[kind] -= 1
            self.strikes.append(Strike(kind, name, pid, at, time.monotonic() if kind is Kind.STOP else at + seconds, len(present), alone))
            if kind in (Kind.KILL, Kind.FREEZE, Kind.TERM):
                self.gone.add(name)

    def _do(self, kind: Kind, pid: int, seconds: float) -> None:
        match kind:
            case Kind.KILL:
                os.kill(pid, signal.SIGKILL)
            case Kind.TERM:
                os.kill(pid, signal.SIGTERM)
            case Kind.FREEZE:
                os.kill(pid, signal.SIGSTOP)
            case Kind.STOP:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)
            case Kind.HOLD:
                pipe = os.open(Path(self.folder, f"{pid}.hold"), os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, f"{seconds}".encode())
                os.close(pipe)


def children(parent: int) -> dict[int, str]:
    """The names of the processes below `parent`, by id."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                before, _, rest = (entry / "stat").read_text().rpartition(")")
                parents[int(entry.name)], names[int(entry.name)] = int(rest.split()[1]), before.partition("(")[2]

    def below(pid: int) -> bool:
        return pid in parents and (parents[pid] == parent or below(parents[pid]))

    return {pid: name for pid, name in names.items() if below(pid)}
