"""Faults of one actor, as values. `what` is the text of the event `Faulted`.

Each begins at the time `at`, in seconds since the run began, or after the actor's own step `step`. The actor "first" is the first worker
that is there at that moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults.checks import FIRST, refuse_endless, refuse_moment, refuse_times


@dataclass(frozen=True, slots=True)
@checked
class Crash:
    """`actor` crashes at time `at` and is not replaced; messages that had not left it completely are lost. A process gets SIGKILL."""

    actor: str
    at: float | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step)

    @property
    def what(self) -> str:
        return "crashed"


@dataclass(frozen=True, slots=True)
@checked
class Segfault:
    """`actor` dies of a segmentation fault: for the others a crash, with another reason."""

    actor: str
    at: float | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step)

    @property
    def what(self) -> str:
        return "died of a segmentation fault"


@dataclass(frozen=True, slots=True)
@checked
class Exit:
    """The process of `actor` exits with `status`, without ending its part of the run: for the others a crash, also with status 0."""

    actor: str
    status: int = 1
    at: float | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step)
        if not 0 <= self.status <= 255:
            raise CompositionError(f"{self} has the status {self.status}. Give one from 0 to 255.")

    @property
    def what(self) -> str:
        return f"exited with status {self.status}"


@dataclass(frozen=True, slots=True)
@checked
class Stall:
    """`actor` does nothing for `duration` from `at` on, and then resumes; what it had sent arrives. A process gets SIGSTOP and SIGCONT."""

    actor: str
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.duration)
        refuse_endless(self, self.duration)

    @property
    def what(self) -> str:
        return f"stalls for {self.duration:.9g} s"


@dataclass(frozen=True, slots=True)
@checked
class HoldGIL:
    """A call in C holds the interpreter's lock of `actor` for `duration`: it computes, sends and receives nothing, and lives."""

    actor: str
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.duration)
        refuse_endless(self, self.duration)

    @property
    def what(self) -> str:
        return f"holds the GIL for {self.duration:.9g} s"


@dataclass(frozen=True, slots=True)
@checked
class SlowDisk:
    """The disk of the worker `actor` takes `seconds` longer for its part of each checkpoint, for `duration`."""

    actor: str
    seconds: float
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.duration)
        refuse_times(self, 0.0, self.seconds)
        refuse_endless(self, self.seconds)
        _refuse_servers(self, self.actor)

    @property
    def what(self) -> str:
        return f"writes {self.seconds:.9g} s longer for {self.duration:.9g} s"


@dataclass(frozen=True, slots=True)
@checked
class KillWhileWriting:
    """The worker `actor` crashes when it has written its part of the `checkpoint`-th one of this run, and nobody has committed that."""

    actor: str = FIRST
    checkpoint: int = 1

    def __post_init__(self) -> None:
        _refuse_servers(self, self.actor)
        if self.checkpoint < 1:
            raise CompositionError(f"{self} cannot come: the first checkpoint of a run is checkpoint 1.")

    @property
    def what(self) -> str:
        return "crashed while it wrote a checkpoint"


@dataclass(frozen=True, slots=True)
@checked
class Leave:
    """`actor` has notice to leave, as when its host is preempted (SIGTERM); if it is there after `notice` seconds, it crashes."""

    actor: str
    at: float | None = None
    notice: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.notice)

    @property
    def what(self) -> str:
        return "has notice to leave" + (f" within {self.notice:.9g} s" if self.notice < math.inf else "")


@dataclass(frozen=True, slots=True)
@checked
class Join:
    """A new worker joins, at `site` if given; `step` counts the steps of the first worker. It gets the next number that no worker had."""

    at: float | None = None
    step: int | None = None
    site: str | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step)

    @property
    def what(self) -> str:
        return "a worker joins" + (f" at {self.site}" if self.site else "")


def _refuse_servers(fault: object, actor: str) -> None:
    if actor.startswith("server/"):
        raise CompositionError(f"{fault} is about the checkpoints of a worker, and {actor} is a server: give a worker, or 'first'.")
