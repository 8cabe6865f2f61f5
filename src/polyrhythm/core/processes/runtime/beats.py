"""Beats of processes, and what their silence means: a slow worker is told from one that is stopped, held, cut off or dead.

`BeatSender` sends a beat ten times a second. `ChildWatch` (of a launcher) and `PeerWatch` (of a joined worker) give those that come to a
`BeatObserver`, whose limits follow the gaps and steps that it has measured (docs/decisions/beats.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.processes.runtime.beat import EVERY_SECONDS, Beat
from polyrhythm.errors import CompositionError

LOOK_SECONDS = 0.25
"""The interval at which observers look: with the ceiling it bounds how late a verdict is, 3 seconds."""
CEILING_SECONDS = 2.7
SLOW_SECONDS = 2.0
"""Least time of computing that is called slow."""
WRITING_SECONDS = 1.0
"""Least time of a write to a disk that is reported."""
_HELD_FLOORS = 2.0
"""Calls that keep the GIL for less than so many floors are common, such as reading a large pickle."""
_LONGEST = 2.0
"""A worker that has computed for long before, such as in an evaluation, may do so again, and for so many times as long."""
_GAPS = 64
"""Gaps of which mean and deviation are taken, about: the older ones count less and less."""
_STEPS = 16
_PRIOR = 8
_LEAST_DEVIATION = 0.25
_PAUSE_SECONDS = 0.5
"""After a silence of so long, or so long without Python, or a write, it counts anew for how long the program computes."""
_NANO = 1e-9


class Liveness(StrEnum):
    """What an observer says of a process."""

    ALIVE = "alive"
    SLOW = "slow"
    """It computes for far longer than its steps take."""
    HELD = "held"
    """Beats come, but no thread of Python runs: a call keeps the GIL."""
    STOPPED = "stopped"
    """No beats come, and the process is there: it is stopped by a signal, or frozen."""
    WRITING = "writing"
    """It has been writing to a disk for long."""
    DEAD = "dead"
    UNREACHABLE = "unreachable"
    """Nothing comes from it any more, and it is on another host."""
    WAITING = "waiting"
    """It waits in a call of the library for somebody."""


SUSPECT = frozenset({Liveness.SLOW, Liveness.HELD, Liveness.STOPPED, Liveness.WRITING, Liveness.UNREACHABLE})
"""Verdicts of processes that are there, maybe, and keep others waiting."""


@dataclass(frozen=True, slots=True)
class BeatLimits:
    """How long a silence must be to mean something: `deviations` above the mean of gaps, and at least `floor` seconds.

    `step` is how many seconds of computing a step is predicted to take, if that is known.
    """

    deviations: float = 5.0
    floor: float = 0.7
    step: float | None = None

    def __post_init__(self) -> None:
        if not self.deviations > 0:
            raise CompositionError(f"deviations={self.deviations:g} is no distance from a mean: give more than 0.")
        if not EVERY_SECONDS < self.floor <= CEILING_SECONDS:
            raise CompositionError(f"floor={self.floor:g} cannot be kept: give seconds between {EVERY_SECONDS:g} and {CEILING_SECONDS:g}.")
        if self.step is not None and not self.step > 0:
            raise CompositionError(f"step={self.step:g} is not a positive time: give more than 0 seconds.")


class GapSpread:
    """A running mean and deviation of the logarithms of times, of the last `memory` about.

    They begin at the interval of beats and at `variance`, as if that had been measured `count` times.
    """

    def __init__(self, memory: int, variance: float, count: int) -> None:
        self.count = count
        self._memory = memory
        self._mean = math.log(EVERY_SECONDS)
        self._variance = variance

    def add(self, seconds: float) -> None:
        """Take a time into account."""
        self.count += 1
        weight = max(1 / self.count, 1 / self._memory)
        apart = math.log(max(seconds, _NANO)) - self._mean
        self._mean += weight * apart
        if self.count > 1:
            self._variance = (1 - 1 / self._memory) * (self._variance + weight * apart * apart)

    def limit(self, deviations: float) -> float:
        """The time that is so many deviations above the mean."""
        return math.exp(self._mean + deviations * max(math.sqrt(self._variance), _LEAST_DEVIATION))


@dataclass(frozen=True, slots=True)
class PeerFinding:
    """The `verdict` on the process of `name`, which began at `since`; `whom` it waits for, if it waits."""

    name: str
    verdict: Liveness
    since: float
    whom: tuple[str, ...] = ()


@dataclass(slots=True)
class _Watched:
    """What came from a process: its last beat, when that came, when something came at all, and when a thread of Python had run."""

    beat: Beat | None = None
    at: float = 0.0
    heard: float = 0.0
    pulse_at: float = 0.0
    resumed: float = -math.inf
    gone: float | None = None
    gaps: GapSpread = field(default_factory=lambda: GapSpread(_GAPS, 0.25, _PRIOR))
    pulses: GapSpread = field(default_factory=lambda: GapSpread(_GAPS, 0.1, _PRIOR))
    steps: GapSpread = field(default_factory=lambda: GapSpread(_STEPS, 1.0, 0))

    def take(self, beat: Beat, at: float) -> None:
        """Take in a beat that is newer."""
        before, self.beat = self.beat, beat
        if before is None:
            self.pulse_at = at
        else:
            self.gaps.add(at - self.at)
            if before.writing or at - min(self.at, self.pulse_at) > _PAUSE_SECONDS:
                self.resumed = at
            if beat.pulse != before.pulse:
                self.pulses.add((at - self.pulse_at) / max(1, beat.pulse - before.pulse))
                self.pulse_at = at
            if beat.step > before.step > 0 and beat.computed > before.computed:  # the first step has warmed up
                self.steps.add((beat.computed - before.computed) * _NANO / (beat.step - before.step))
        self.at = self.heard = at


class BeatObserver:
    """The verdicts on processes, from their beats. Times are of one clock, which callers give.

    `state` is the state of a process in the kernel, by the actor's name and the id: a letter, "" if there is no such process, and None if
    it is on another host.
    """

    def __init__(self, limits: BeatLimits, state: Callable[[str, int], str | None]) -> None:
        self._limits = limits
        self._state = state
        self._watched: dict[str, _Watched] = {}

    def begin(self, names: Iterable[str]) -> None:
        """Observe `names`."""
        self._watched |= {name: _Watched() for name in names}

    def beat(self, name: str, beat: Beat, at: float) -> None:
        """A beat of `name` has come, which was sent, or came, at `at`."""
        one = self._watched.get(name)
        if one is not None and (one.beat is None or beat.number > one.beat.number):
            one.take(beat, max(at, one.at))

    def heard(self, name: str, at: float) -> None:
        """Something else has come from `name`: if its beats do not come through any more, it is not judged by them until they do."""
        one = self._watched.get(name)
        if one is not None:
            one.heard = max(at, one.heard)
            if one.beat is not None and at - one.at > CEILING_SECONDS:
                self._watched[name] = _Watched()

    def gone(self, name: str, at: float) -> None:
        """The process of `name` has ended."""
        if name in self._watched:
            self._watched[name].gone = at

    def forget(self, name: str) -> None:
        """Observe `name` no more: it has ended well, or the run continues without it."""
        self._watched.pop(name, None)

    def pid(self, name: str) -> int:
        """The id of the process of `name`, 0 if it is not known."""
        one = self._watched.get(name)
        return one.beat.pid if one is not None and one.beat is not None else 0

    def findings(self, now: float) -> dict[str, PeerFinding]:
        """The verdict on each, by name."""
        found = {name: self._judge(name, one, now) for name, one in self._watched.items()}
        suspects = tuple(name for name, one in found.items() if one.verdict in SUSPECT or one.verdict is Liveness.DEAD)
        whom = suspects or tuple(name for name, one in found.items() if one.verdict is Liveness.ALIVE and is_worker(name))
        waiting = {name: PeerFinding(name, one.verdict, one.since, whom) for name, one in found.items() if one.verdict is Liveness.WAITING}
        return found | waiting

    def reason(self, name: str, now: float) -> str:
        """What is known of `name`, as a part of a sentence that follows what it keeps from going on; empty if nothing is."""
        one = self._watched.get(name)
        if one is None or one.beat is None:
            return ""
        found = self._judge(name, one, now)
        seconds = f"{now - found.since:.0f} s"
        match found.verdict:
            case Liveness.HELD:
                return f"its process {one.beat.pid} lives, but no Python has run in it for {seconds}: a call keeps the GIL"
            case Liveness.WRITING:
                return f"it has been writing to a disk for {seconds}"
            case Liveness.SLOW:
                return f"it has computed for {seconds}, where steps took up to {self._slow(one, one.beat):.1f} s"
            case Liveness.UNREACHABLE:
                return f"nothing has come from it for {seconds}, so its host or the network is down, or it is stopped"
            case Liveness.STOPPED:
                return f"its process {one.beat.pid} is there, but stopped or frozen for {seconds}"
            case _:
                return ""

    def _judge(self, name: str, one: _Watched, now: float) -> PeerFinding:
        if one.gone is not None:
            return PeerFinding(name, Liveness.DEAD, one.gone)
        if one.beat is None:
            return PeerFinding(name, Liveness.ALIVE, now)
        if (silent := self._silent(name, one, one.beat, now)) is not None:
            return PeerFinding(name, silent, one.at)
        beat = one.beat
        written = (beat.sent - beat.writing) * _NANO if beat.writing else 0.0
        phase = min((beat.sent - abs(beat.phase)) * _NANO, one.at - one.resumed) if beat.phase else 0.0
        if one.at - one.pulse_at > self._held(one):
            return PeerFinding(name, Liveness.HELD, one.pulse_at)
        if written > WRITING_SECONDS:
            return PeerFinding(name, Liveness.WRITING, one.at - written)
        if beat.phase < 0:
            return PeerFinding(name, Liveness.WAITING, one.at - phase)
        return PeerFinding(name, Liveness.SLOW if phase > self._slow(one, beat) else Liveness.ALIVE, one.at - phase)

    def _silent(self, name: str, one: _Watched, beat: Beat, now: float) -> Liveness | None:
        """The verdict on one from which nothing has come for too long; None if something has."""
        silence = now - one.heard
        if silence <= self._limits.floor:
            return None
        state = self._state(name, beat.pid)
        if state is None:
            return Liveness.UNREACHABLE if silence > self._bound(one.gaps, self._limits.floor) else None
        if state in ("", "Z", "X"):
            return Liveness.DEAD
        if state in ("T", "t"):
            return Liveness.STOPPED
        if not beat.native:
            return Liveness.HELD if silence > self._held(one) else None
        return Liveness.STOPPED if silence > CEILING_SECONDS else None  # for less than that it may lack a processor

    def _held(self, one: _Watched) -> float:
        """Seconds without Python from which on a call keeps the GIL."""
        return self._bound(one.pulses, _HELD_FLOORS * self._limits.floor)

    def _bound(self, spread: GapSpread, floor: float) -> float:
        return min(max(floor, spread.limit(self._limits.deviations)), CEILING_SECONDS)

    def _slow(self, one: _Watched, beat: Beat) -> float:
        """Seconds of computing from which on a worker is slow."""
        usual = one.steps.limit(self._limits.deviations) if one.steps.count else math.inf
        if self._limits.step is not None:
            usual = min(usual, self._limits.step * math.exp(self._limits.deviations * _LEAST_DEVIATION))
        return max(SLOW_SECONDS, usual, _LONGEST * beat.longest * _NANO)


def process_state(pid: int) -> str:
    """The state of a process of this host as `/proc` has it: R, S, D, T (stopped by a signal), t, Z …; "" if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]
