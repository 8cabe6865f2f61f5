"""Whether a host or a device may be used, from probes: a pure state machine.

    Healthy ──missed──▶ Suspect ──more missed──▶ Dead ──clean──▶ Recovering ──more clean──▶ Healthy
       └───────────fatal, or no driver──────────▶ Dead ◀──missed or fatal──┘

What is suspect keeps its jobs and gets no new ones. What is dead is not advertised, and its jobs are stopped. What dies too often within a
window is cordoned: it stays out until a person lets it in again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from polyrhythm.cluster.events import PartLost, PartRestored, PartSuspected
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class Health(Enum):
    """The state of a host or a device."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    DEAD = "dead"
    RECOVERING = "recovering"
    CORDONED = "cordoned"


class Probe(Enum):
    """What one probe found: all is well, no answer, a fatal error (such as a fatal Xid), no driver, or an error that a program has caused.

    No driver concerns all devices of a host. Errors of programs are only counted.
    """

    CLEAN = "clean"
    MISSED = "missed"
    FATAL = "fatal"
    NO_DRIVER = "no driver"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True)
@checked
class LivenessRules:
    """Dead after `misses` probes in a row without an answer, and healthy again after `clean` good ones.

    At the death after `flaps` deaths within `window` seconds a part is cordoned.
    """

    misses: int = 3
    clean: int = 3
    flaps: int = 3
    window: float = 3600.0

    def __post_init__(self) -> None:
        if min(self.misses, self.clean, self.flaps) < 1 or not self.window > 0:
            raise CompositionError(f"{self} has a number below one: give one probe or more, and a window above zero.")


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known of one host or device: its health, the probes in a row towards the next state, its deaths, and errors of programs."""

    health: Health = Health.HEALTHY
    streak: int = 0
    deaths: tuple[float, ...] = ()
    application_errors: int = 0

    @property
    def usable(self) -> bool:
        """True if running jobs may stay."""
        return self.health in (Health.HEALTHY, Health.SUSPECT)

    def after(self, probe: Probe, now: float, rules: LivenessRules) -> Vitals:
        """What is known after one more probe."""
        if self.health is Health.CORDONED:
            return self
        match probe:
            case Probe.APPLICATION:
                return replace(self, application_errors=self.application_errors + 1)
            case Probe.FATAL | Probe.NO_DRIVER:
                return self._dead(now, rules)
            case Probe.MISSED:
                return self._missed(now, rules)
            case Probe.CLEAN:
                return self._clean(rules)

    def uncordoned(self) -> Vitals:
        """A person has let it in again: it recovers, and its deaths are forgotten."""
        return replace(self, health=Health.RECOVERING, streak=0, deaths=())

    def _missed(self, now: float, rules: LivenessRules) -> Vitals:
        if self.health is Health.DEAD:
            return replace(self, streak=0)
        if self.health is Health.RECOVERING:
            return replace(self, health=Health.DEAD, streak=0)  # the same death: it was never back
        missed = self.streak + 1 if self.health is Health.SUSPECT else 1
        return self._dead(now, rules) if missed >= rules.misses else replace(self, health=Health.SUSPECT, streak=missed)

    def _clean(self, rules: LivenessRules) -> Vitals:
        if self.health in (Health.HEALTHY, Health.SUSPECT):
            return replace(self, health=Health.HEALTHY, streak=0)
        good = self.streak + 1
        healthy = good >= rules.clean
        return replace(self, health=Health.HEALTHY if healthy else Health.RECOVERING, streak=0 if healthy else good)

    def _dead(self, now: float, rules: LivenessRules) -> Vitals:
        if not self.usable:
            return replace(self, health=Health.DEAD, streak=0)
        deaths = (*(death for death in self.deaths if death > now - rules.window), now)
        return replace(self, health=Health.CORDONED if len(deaths) > rules.flaps else Health.DEAD, streak=0, deaths=deaths)


Part = tuple[str, int | None]
"""A host, as (name, None), or one of its devices, as (name, number)."""
PartEvent = PartLost | PartSuspected | PartRestored


@dataclass(frozen=True, slots=True)
class LivenessWatch:
    """The vitals of all hosts and devices that were ever probed.

    Examples:
        >>> watch, events = LivenessWatch().after("laptop", None, Probe.FATAL, now=0.0)
        >>> events
        (PartLost(host='laptop', device=None),)
    """

    rules: LivenessRules = LivenessRules()
    parts: Mapping[Part, Vitals] = field(default_factory=dict)

    def after(self, host: str, device: int | None, probe: Probe, now: float) -> tuple[LivenessWatch, tuple[PartEvent, ...]]:
        """The watch after a probe, and what it means for the cluster. Without a driver the whole host counts as dead."""
        part = (host, None if probe is Probe.NO_DRIVER else device)
        before = self.parts.get(part, Vitals())
        vitals = before.after(probe, now, self.rules)
        return self._with(part, before, vitals)

    def uncordoned(self, host: str, device: int | None = None) -> LivenessWatch:
        """The watch in which a cordoned part recovers; it is restored by clean probes."""
        part = (host, device)
        return replace(self, parts={**self.parts, part: self.parts.get(part, Vitals()).uncordoned()})

    def _with(self, part: Part, before: Vitals, vitals: Vitals) -> tuple[LivenessWatch, tuple[PartEvent, ...]]:
        watch = replace(self, parts={**self.parts, part: vitals})
        if before.usable and not vitals.usable:
            return watch, (PartLost(*part),)
        if before.health is not vitals.health and vitals.usable:
            return watch, (PartRestored(*part) if vitals.health is Health.HEALTHY else PartSuspected(*part),)
        return watch, ()
