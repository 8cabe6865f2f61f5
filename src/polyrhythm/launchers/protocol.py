"""The protocol of engines: an engine starts a task for each worker, reports those that it lost, and starts them again. The driver calls it,
and each engine's module implements it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

DRIVER = "driver"
"""The name of the driver to its tasks."""
NO_DRIVER = 69
"""The exit code of a task that has lost its driver, or cannot reach it (EX_UNAVAILABLE of sysexits.h)."""


class TaskOrder(msgspec.Struct, frozen=True):
    """All that a task must know to reach its driver: an address, and the secret of the run, in hexadecimal.

    `echoes` is whether the task sends what it prints to the driver, which an engine may do by itself. Where the crew `changes`, the loss of
    one task is not that of the others; the crew `replaces` it where the engine can start it again.
    """

    host: str
    port: int
    secret: str
    workers: int
    echoes: bool = False
    changes: bool = False
    replaces: bool = False

    def __repr__(self) -> str:
        """A representation without the secret, which must not come into a log."""
        return f"TaskOrder({self.host!r}, {self.port}, ..., {self.workers}, echoes={self.echoes})"


@dataclass(frozen=True, slots=True)
class Loss:
    """The engine has lost the task of `rank`, or all that had not ended where that is None; `reason` completes "worker/1 failed: "."""

    rank: int | None
    reason: str


class Tasks(Protocol):
    """The tasks of one run. Called from one thread."""

    def losses(self) -> Iterable[Loss]:
        """The tasks that were lost since the last call."""

    def restart(self, ranks: list[int]) -> list[int]:
        """Have the tasks of these ranks start again: the ranks of all tasks that start again with them, and leave if they are there."""

    def close(self, seconds: float) -> None:
        """End all tasks, which have so many seconds to leave by themselves, and give everything back."""


class Launcher(Protocol):
    """Something that can start tasks on its machines."""

    @property
    def restarts(self) -> int:
        """The number of times that a run which lost a task begins again, from its newest checkpoint."""

    @property
    def starts_alone(self) -> bool:
        """True if it can start one task again while the others stay."""

    @property
    def startup(self) -> float:
        """Seconds within which all tasks must have reached the driver, at the start and after a loss."""

    @property
    def threads(self) -> int:
        """The threads that each worker computes with."""

    @property
    def timeout(self) -> float | None:
        """After so many seconds of waiting for a worker that makes no progress the run fails; None: it only is reported."""

    @property
    def echoes(self) -> bool:
        """True if tasks must send their printed output to the driver, because the engine does not show it."""

    def driver_address(self) -> str:
        """An address of this host that all tasks can reach."""

    def start(self, order: TaskOrder) -> Tasks:
        """Start a task for each worker. Raises CompositionError if the engine cannot be had."""
