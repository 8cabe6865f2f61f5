"""The protocol of routers: which of the machines that serve a session gets a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Destination:
    """A machine as a router sees it: the plan's `weight`, `queued` requests, and `seconds` until it has done what it was given.

    `latency` is the seconds of a planned batch of the session there, and `cost` those of one request in it.
    """

    machine: str
    weight: float
    queued: int
    seconds: float
    latency: float
    cost: float


@dataclass(frozen=True, slots=True)
class Routed:
    """The index of the chosen machine, and the credits for the next choice."""

    index: int
    credits: Mapping[str, float] = field(default_factory=dict)


class RequestRouter(Protocol):
    """A rule that chooses among at least one destination; it keeps nothing but `credits`, which its caller keeps for each session."""

    def route(
        self, destinations: Sequence[Destination], credits: Mapping[str, float], patience: float, draws: np.random.Generator
    ) -> Routed:
        """The machine for a request that can wait `patience` seconds for its answer."""
