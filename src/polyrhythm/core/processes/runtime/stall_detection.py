"""Finds stalled actors that others wait for, and deadlocks, from the status messages of all actors.

The launcher of a run (`LaunchedRun`) and each joined worker (`PeerMonitor`) have a `StallDetector`, whose limits are a `Patience`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from polyrhythm.core.kernel.agreement import listed
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.kernel.uneven import uneven
from polyrhythm.core.processes.runtime.beats import BeatLimits, process_state
from polyrhythm.core.processes.runtime.status import EVERY_SECONDS, ActorStatus
from polyrhythm.errors import CompositionError, DeadlockError, WorkerFailed

_LONG_STEPS = 4.0
"""A wait of less than so many times the longest computation seen may be for a slow worker."""
_GROWTH = 2.0
SILENT_SECONDS = 3 * EVERY_SECONDS
"""A process that lives sends its status three times in so long, also while its program computes."""
_MOST_WAITS = 16
_SETTLING_SECONDS = 1.0
"""So long after an end others may still report that they wait for what it has sent."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds: a run ends when all have waited for `deadlock`, or for `uneven` where some take no more steps and others want one.

    After `notice` it is printed for whom others wait, and after `timeout`, if there is one, the run ends with its name. `beats` are the
    limits by which a process is found to be slow, stopped or cut off.
    """

    deadlock: float = 20.0
    uneven: float = 2.0
    notice: float = 30.0
    timeout: float | None = None
    beats: BeatLimits = field(default_factory=BeatLimits)

    def __post_init__(self) -> None:
        given = {"patience": self.deadlock, "notice": self.notice, "timeout": math.inf if self.timeout is None else self.timeout}
        for name, seconds in given.items():
            if not seconds > 0:
                raise CompositionError(f"{name}={seconds:g} is not a positive time: give more than 0 seconds.")

    @property
    def thresholds(self) -> tuple[float, float]:
        """Seconds of waiting after which actors send their status at once."""
        return (min(self.uneven, self.deadlock), self.deadlock)


@dataclass(frozen=True, slots=True)
class ReceivedStatus:
    """An actor's status, and when it came."""

    status: ActorStatus
    at: float


@dataclass(frozen=True, slots=True)
class StallReport:
    """`culprits` keep `waiters` waiting, the first of these for `seconds`, as the `sentence` reports."""

    culprits: list[str]
    waiters: list[str]
    seconds: float
    sentence: str


class StallDetector:
    """The actors of a run that are not over. `near` is true if the process of an actor can be inspected; times are of one clock.

    `reason` says what is known of an actor from its beats (`BeatObserver.reason`).
    """

    def __init__(
        self,
        patience: Patience,
        near: Callable[[str], bool] = lambda name: True,
        reason: Callable[[str, float], str] = lambda name, now: "",
    ) -> None:
        self.patience = patience
        self._near = near
        self._reason = reason
        self._received: dict[str, ReceivedStatus] = {}
        self._started = False
        self._changed = -math.inf
        self._steps: dict[str, tuple[int, float]] = {}
        self._halted: dict[str, float] = {}
        self._due = patience.notice

    @property
    def names(self) -> list[str]:
        """The actors that are not over."""
        return list(self._received)

    def begin(self, names: Iterable[str], now: float) -> None:
        """All of `names` start now; the status of some may have come before."""
        self._started = True
        self._received = {name: self._received.get(name, ReceivedStatus(ActorStatus(0), now)) for name in names}

    def admit(self, name: str, now: float) -> None:
        """The actor `name` joins those that are not over."""
        self._received[name] = ReceivedStatus(ActorStatus(0), now)
        self._changed = now

    def update(self, name: str, status: ActorStatus, now: float) -> None:
        """The actor `name` has sent its status."""
        if name in self._received or not self._started:
            self._received[name] = ReceivedStatus(status, now)

    def note_step(self, name: str, clock: int, now: float) -> None:
        """The worker `name` has taken a step; for those who learn of each."""
        self._steps[name] = (clock, now)

    def forget(self, name: str, now: float) -> None:
        """The actor `name` has ended, or is lost."""
        if self._received.pop(name, None) is not None:
            self._changed = now

    def deadlock(self, now: float) -> DeadlockError | None:
        """The error for a run in which every actor waits, or None."""
        statuses = {name: received.status for name, received in self._received.items()}
        workers = {name: status for name, status in statuses.items() if is_worker(name)}
        stopped = {name: status.clock for name, status in workers.items() if status.stopped}
        going = [name for name in workers if name not in stopped]
        reason = uneven(stopped, going, [name for name, status in workers.items() if status.calls])
        enough = self.patience.thresholds[0] if reason is not None else self.patience.deadlock
        if not self._started or not statuses or any(status.quiet < enough for status in statuses.values()) or self._halt(now):
            return None
        # the last message of one that has ended may be what another waited for when it last sent its status
        if any(received.at <= self._changed + _SETTLING_SECONDS for received in self._received.values()):
            return None
        order = sorted(statuses, key=lambda name: not is_worker(name))  # a server that waits for anyone's message is idle, not the cause
        waits = [wait for name in order for wait in statuses[name].waits]
        more = f"; and {len(waits) - _MOST_WAITS} more wait" if len(waits) > _MOST_WAITS else ""
        return DeadlockError(reason or f"Deadlock: {'; '.join(waits[:_MOST_WAITS])}{more}.")

    def look(self, now: float) -> StallReport | None:
        """The stall that is to be reported now; then not again until it has lasted twice as long."""
        stall = self.stall(now)
        longest = max((received.status.longest for received in self._received.values()), default=0.0)
        if stall is None:
            self._due = self.patience.notice
        elif stall.seconds >= max(self._due, _LONG_STEPS * longest):
            self._due = _GROWTH * stall.seconds
            return stall
        return None

    def expired(self, now: float) -> WorkerFailed | None:
        """The error for a run that has waited for longer than its timeout, or None."""
        stall = self.stall(now)
        if stall is None or self.patience.timeout is None or stall.seconds < self.patience.timeout:
            return None
        culprit = stall.culprits[0]
        return WorkerFailed(culprit, f"it made no progress within timeout={self.patience.timeout:g} seconds: {stall.sentence}")

    def stall(self, now: float) -> StallReport | None:
        """The actors that keep others waiting, and the workers that wait for them; None if there are none.

        A worker that has finished waits for no work: the others may take any time, unless one is stopped or sends no status any more.
        """
        halted = self._halt(now)
        here = {name: received for name, received in self._received.items() if name not in halted}
        leaving = [name for name, received in here.items() if received.status.leaving]
        waited = {name: received.status.quiet + now - received.at for name, received in here.items() if received.status.quiet}
        workers = [name for name in waited if is_worker(name) and name not in leaving]
        silent = {name: received.at for name, received in here.items() if now - received.at > SILENT_SECONDS} if leaving else {}
        if workers:
            moving = [name for name in here if name not in waited and name not in leaving]
            culprits = list(halted) or [name for name in moving if is_worker(name)] or moving
        else:
            culprits = list(halted or silent)
        if not culprits:
            return None
        since = {**silent, **halted}
        seconds = max([*(waited[name] for name in workers), *(now - since[name] for name in culprits if name in since)])
        return StallReport(culprits, workers, seconds, self._sentence(culprits, workers, seconds, now))

    def _halt(self, now: float) -> dict[str, float]:
        """The actors whose processes on this host are stopped by a signal, and since when that is known."""
        pids = {name: received.status.pid for name, received in self._received.items() if received.status.pid and self._near(name)}
        halted = [name for name, pid in pids.items() if process_state(pid) in ("T", "t")]
        self._halted = {name: self._halted.get(name, now) for name in halted}
        return self._halted

    def _sentence(self, culprits: list[str], workers: list[str], seconds: float, now: float) -> str:
        first = culprits[0]
        received = self._received[first]
        if workers:
            has = "has" if len(workers) == 1 else "have"
            text = f"{listed(workers)} {has} waited {seconds:.0f} s for {listed(culprits)}"
        else:
            text = f"{listed(culprits)} {'has' if len(culprits) == 1 else 'have'} made no progress for {seconds:.0f} s"
        if is_worker(first) and len(culprits) == 1:
            clock, last = self._steps.get(first, (received.status.clock, received.at - received.status.ago))
            text += f", which last took step {clock}, {now - last:.0f} s ago" if clock else ", which has not taken a step yet"
        if first in self._halted:
            text += f"; its process {received.status.pid} is stopped by a signal (kill -CONT {received.status.pid} continues it)"
        elif reason := self._reason(first, now):
            text += f"; {reason}"
        elif now - received.at > SILENT_SECONDS:
            text += f"; nothing has been received from it for {now - received.at:.0f} s, so it is stopped or disconnected"
        return text + "."


def report(stall: StallReport) -> None:
    """Print it on stderr."""
    notify(stall.sentence)
