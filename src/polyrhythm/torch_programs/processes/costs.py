"""What the program of another process has computed, as the scheduler counts it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ComputedSoFar:
    """What a program has computed when it asks for something: operations so far, those that a charge would take, CPU seconds, its line."""

    flops: int = 0
    takes: int = 0
    seconds: float = 0.0
    where: str = ""


@dataclass(slots=True)
class RemoteCount:
    """A `Count` of what another process counts: `known` is what it said last, and in `after` is noted what it is to do with its own."""

    known: ComputedSoFar = field(default_factory=ComputedSoFar)
    flops: int = 0
    takes: int = 0
    after: str = ""

    def learn(self, known: ComputedSoFar) -> None:
        """The process has said what it has computed."""
        self.known, self.flops, self.takes, self.after = known, known.flops, known.takes, ""

    def seconds(self) -> float:
        """The CPU seconds that the program has used so far."""
        return self.known.seconds

    def where(self) -> str:
        """The line of the program that waits."""
        return self.known.where

    def start(self) -> None:
        """It counts by itself."""

    def stop(self) -> int:
        taken, self.flops, self.takes, self.after = self.flops, 0, 0, "stop"
        return taken

    def take(self) -> int:
        taken, self.takes, self.after = self.takes, 0, self.after or "take"
        self.flops -= taken
        return taken

    def free(self, compute: Callable[[], T]) -> T:
        return compute()

    uncounted = free
    counted = free

    def refuse(self) -> None:
        """It can wait anywhere."""
