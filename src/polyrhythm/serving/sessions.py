"""Demand and machines of a site that serves models: what a plan is made for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class ServingSession:
    """Requests for one `model` that must be answered within `slo` seconds of their arrival; `rate` is requests per second.

    The latency objective belongs to the session: two applications may want the same model within different times (Nexus, 2019, section 4).
    """

    name: str
    model: str
    slo: float
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.slo < math.inf or not 0 <= self.rate < math.inf:
            raise CompositionError(
                f"The session {self.name!r} has a latency objective of {self.slo} s and {self.rate} requests/s: the objective must be "
                "above zero, the rate not below, and both finite."
            )


@dataclass(frozen=True, slots=True)
@checked
class ServingMachine:
    """One device that runs one batch at a time; `kind` selects its profiles, `memory` is in bytes, `cost` in any unit.

    A host with several accelerators is several machines.
    """

    name: str
    kind: str
    memory: int
    cost: float = 1.0

    def __post_init__(self) -> None:
        if self.memory < 0 or not 0 < self.cost < math.inf:
            raise CompositionError(
                f"The machine {self.name!r} has {self.memory} bytes and costs {self.cost}: the memory must not be below zero, and the cost "
                "above zero and finite."
            )


@dataclass(frozen=True, slots=True)
@checked
class PlanningRules:
    """Time and capacity that a plan keeps free, and the number of models that one new plan may load.

    `network` is the seconds that a request spends on the way, `jitter` those that timers and the scheduler of the machine may add. The
    server's entrance takes `entrance` seconds for each request, one after the other, and waiting for it is part of `network`. A plan
    with a `headroom` of 0.1 holds 1.1 times the rates. Batches hold what comes in a duty cycle on average and `deviations` standard
    deviations of it, as of Poisson's arrivals; 0 is for evenly spaced requests. A cheaper plan that loads more than
    `most_loads` models is not taken while the old one still serves everything.
    """

    network: float = 0.0
    jitter: float = 0.004
    headroom: float = 0.1
    deviations: float = 1.5
    most_loads: int = 4
    entrance: float = 0.0

    @property
    def entrance_rate(self) -> float:
        """The requests per second of which 99 in 100 wait at most `network` for the entrance; infinite where it takes no time.

        With a fixed service time s and Poisson's arrivals at utilization u, P(wait > t) is close to exp(−2 (1 − u) t / (u s)) (Kingman,
        1962).
        """
        if self.entrance == 0:
            return math.inf
        return self.network / (self.network + math.log(100) * self.entrance / 2) / self.entrance

    def __post_init__(self) -> None:
        if not all(0 <= value < math.inf for value in (self.network, self.jitter, self.headroom, self.deviations)) or self.most_loads < 0:
            raise CompositionError(
                f"{self.network} s for the network, {self.jitter} s of jitter, a headroom of {self.headroom}, {self.deviations} standard "
                f"deviations and {self.most_loads} loads cannot be planned with: give 0 or more, and finite."
            )
        if not 0 <= self.entrance < math.inf or (self.entrance > 0 and self.network == 0):
            raise CompositionError(
                f"An entrance of {self.entrance} s with {self.network} s for the network leaves no time to wait for it: give both, finite."
            )
