"""The settings of a simulated site: demand, machines, and the pieces that decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.serving.control import ControlRules
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.routing import RequestRouter, SmoothWeighted
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession
from polyrhythm.serving.simulation.arrivals import ArrivalProcess
from polyrhythm.serving.token_bucket import AdmissionRule, AdmitPlanned
from polyrhythm.serving.turns import DutyTurns


@dataclass(frozen=True, slots=True)
@checked
class SimulatedSite:
    """Sessions, machines and profiles, as `plan` takes them, and the pieces that decide about requests.

    `members` are the sessions that requests come for where a family is planned as one. `spread` is the part of a batch's p99 latency by
    which batches differ at least; profiles have their own. Without `control` the first plan stays. `losses` has for machines the moment
    at which they are lost.
    """

    sessions: tuple[ServingSession, ...]
    machines: tuple[ServingMachine, ...]
    profiles: tuple[LatencyProfile, ...]
    rules: PlanningRules = field(default_factory=PlanningRules)
    turns: DutyTurns = field(default_factory=DutyTurns)
    router: RequestRouter = field(default_factory=SmoothWeighted)
    admission: AdmissionRule = field(default_factory=AdmitPlanned)
    control: ControlRules | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.0
    members: FamilyMembers = field(default_factory=FamilyMembers)

    def __post_init__(self) -> None:
        if not 0 <= self.spread < 1:
            raise CompositionError(f"A spread of {self.spread} is no part of a latency: give one from 0 to below 1.")
        machines = [each.name for each in self.machines]
        if strangers := sorted(set(self.losses) - set(machines)):
            raise unknown("machine of the site", strangers[0], machines)


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """The arrivals of each session for `seconds`; the same `seed` gives the same moments."""

    arrivals: Mapping[str, ArrivalProcess]
    seconds: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise CompositionError(f"A load of {self.seconds} seconds is none: give a number above zero.")
