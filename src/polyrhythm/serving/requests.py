"""A request, and the one answer that each gets: in time, too late, dropped, or rejected at the entrance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A request of `session`; `arrival` and `deadline` are seconds on the clock of whoever answers.

    `number` orders requests with the same deadline. `payload` is the model's input, which no decision looks at; `member` names the session
    that the client asked, where a family of models that share their first layers serves it as `session`.
    """

    number: int
    session: str
    arrival: float
    deadline: float
    payload: Any = None
    member: str = ""

    @property
    def asked(self) -> str:
        """The session that the client named."""
        return self.member or self.session

    @property
    def order(self) -> tuple[float, int]:
        """The place in a queue by deadline."""
        return (self.deadline, self.number)


@dataclass(frozen=True, slots=True)
class Ok:
    """Answered by the deadline, at `finished`."""

    finished: float
    result: Any = None


@dataclass(frozen=True, slots=True)
class Overdue:
    """Computed, but after the deadline: at `finished`."""

    finished: float
    result: Any = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Given up at `finished` before any compute: `reason` is "deadline", "client gone", "machine lost" or "shutdown"."""

    finished: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Refused at the entrance at `finished`, since the session is over its planned rate; try again after `retry_after` seconds."""

    finished: float
    retry_after: float


ServingOutcome = Ok | Overdue | Dropped | Rejected
