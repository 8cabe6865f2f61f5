"""Admission by token bucket: a session over its planned rate is refused at the entrance, so that its burst costs no other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.serving.serving_plan import ServingPlan


@dataclass(frozen=True, slots=True)
class BucketLevel:
    """The tokens in a bucket at a time."""

    tokens: float
    at: float = 0.0


@dataclass(frozen=True, slots=True)
@checked
class TokenBucket:
    """Admit `rate` requests per second on average, and up to `burst` at once."""

    rate: float
    burst: float

    def __post_init__(self) -> None:
        if not self.rate >= 0 or not self.burst >= 1:
            raise CompositionError(
                f"TokenBucket(rate={self.rate}, burst={self.burst}) admits nothing sensible: the rate must not be below 0 and the burst at "
                "least 1."
            )

    def full(self, now: float) -> BucketLevel:
        """The level of a bucket from which nothing was taken."""
        return BucketLevel(self.burst, now)

    def admit(self, level: BucketLevel, now: float) -> tuple[BucketLevel, float]:
        """The level after a request at `now`, and the seconds after which it may come again: 0 where it is admitted."""
        tokens = min(self.burst, level.tokens + (now - level.at) * self.rate)
        if tokens >= 1 - 1e-9:
            return BucketLevel(tokens - 1, now), 0.0
        return BucketLevel(tokens, now), (1 - tokens) / self.rate if self.rate else math.inf


class AdmissionRule(Protocol):
    """A rule that gives each session its bucket."""

    def bucket(self, made: ServingPlan, session: str) -> TokenBucket:
        """The bucket of a session under that plan."""


@dataclass(frozen=True, slots=True)
@checked
class AdmitPlanned:
    """Admit `over` times what is planned for a session, and at once what is planned for `seconds`, at least `least` requests.

    Poisson's arrivals come in bursts: a bucket of few requests would refuse a part of them although the rate is as planned.
    """

    over: float = 1.1
    seconds: float = 1.0
    least: int = 16

    def __post_init__(self) -> None:
        if not self.over > 0 or not self.seconds >= 0 or self.least < 1:
            raise CompositionError(
                f"AdmitPlanned(over={self.over}, seconds={self.seconds}, least={self.least}) admits nothing: give a factor above "
                "zero and at least one request."
            )

    def bucket(self, made: ServingPlan, session: str) -> TokenBucket:
        """The bucket whose rate is that of the plan, with its headroom."""
        capacity = made.capacity(session)
        return TokenBucket(self.over * capacity, max(float(self.least), self.seconds * capacity))


@dataclass(frozen=True, slots=True)
@checked
class AdmitAll:
    """Admit every request: a baseline, in which a burst of one session is paid by those that share its machines."""

    def bucket(self, made: ServingPlan, session: str) -> TokenBucket:
        """A bucket that is never empty."""
        return TokenBucket(0.0, math.inf)
