"""The machines of a run as its record shows them: how long each worker computes for a step, and what each connection carries.

A plan from a run, and a run that adapts, search on these machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median, median_low, quantiles
from typing import Any

import msgspec

from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.records.metrics import Target, curve_of
from polyrhythm.core.records.outcome import OPTIONS, Outcome
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machines import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.hardware.site import Access, Site
from polyrhythm.tools.report.connections import Connections
from polyrhythm.tools.report.step_times import StepTimes

_ALIKE = 1.25
"""Workers whose steps take up to so many times the median are of one kind; the diagnosis names others as slow."""
_STEPS = 16
"""So many of a worker's last steps are charged in rotation."""
_LEAST_PART = 0.05
"""Of the time of a connection at least this part is taken to be bandwidth: messages that overlap hide each other's latency."""
USUAL = "a worker"


@dataclass(frozen=True)
class RecordedRun:
    """The record of a run, up to any of its steps; `network` is a description of the lines where it is known and not to be measured."""

    outcome: Outcome
    described: Network | None = None

    @cached_property
    def names(self) -> list[str]:
        """The workers that took steps, by rank. Raises CompositionError where there are none."""
        found = sorted(self._steps.times, key=lambda name: int(name.rpartition("/")[2]))
        if not found:
            raise CompositionError("No worker of the recorded run took a step, so its record shows no machine: give that of another run.")
        return found

    @property
    def workers(self) -> int:
        """How many they are."""
        return len(self.names)

    @cached_property
    def fleet(self) -> Fleet:
        """The machine of each worker, as its last steps were; those that take about as long are called alike."""
        taken = {name: self._last(name) for name in self.names}
        middle = median_low(median(steps) for steps in taken.values())  # that of one of them: of two that differ, the faster
        alike = [steps for steps in taken.values() if median(steps) <= _ALIKE * middle and median(steps) >= middle / _ALIKE]
        usual = Profile(
            USUAL, tuple(steps[-1 - place % len(steps)] for place in range(_STEPS) for steps in alike[place % len(alike) :][:1])
        )
        machines = tuple(usual if steps in alike else Profile(name, tuple(steps)) for name, steps in taken.items())
        return Fleet(machines, (), usual)

    @cached_property
    def network(self) -> Network:
        """One site whose hosts have the usual rate of the connections, but those whose lines are far slower than the others'.

        Raises CompositionError where no connection was timed, as within one host.
        """
        if self.described is not None:
            return self.described
        seen = Connections(self.outcome.events)
        if not seen.timed:
            raise CompositionError(
                "The record does not show what connections of the run carried, as where all is on one host: name the lines, such as "
                "--network lan."
            )
        carrying = {(each.actor, each.to): max(each.busy - each.messages * each.latency, _LEAST_PART * each.busy) for each in seen.timed}
        rates = {(each.actor, each.to): each.nbytes / carrying[each.actor, each.to] for each in seen.timed}
        slow = {where.rpartition(" ")[2]: pairs for where, _, pairs in seen.slow() if where.startswith("the line of ")}
        others = [rate for pair, rate in rates.items() if not any(pair in pairs for pairs in slow.values())] or list(rates.values())
        usual = quantiles(others, n=4)[2] if len(others) > 1 else others[0]
        latency = median(each.latency for each in seen.timed)
        accesses = tuple(
            (place, Access(rate, rate))
            for place, name in enumerate(self.names)
            if name in slow
            for rate in [median(rates[pair] for pair in slow[name] if pair in rates)]
        )
        whole = Network("as recorded", (Site("recorded", usual, usual, latency),), ((0.0,),), ((float("inf"),),))
        return replace(whole, accesses=accesses, placement=WithWorkers())

    @property
    def options(self) -> dict[str, Any]:
        """The options of its system that were given, as far as the record has them."""
        found: dict[str, Any] = msgspec.json.decode(self.outcome.settings.get(OPTIONS, "{}"))
        return found

    def value(self, target: Target) -> float | None:
        """The best value of the target's metric so far; None where it was not measured."""
        values = [event.metrics[target.metric] for event in curve_of(self.outcome, target.metric)]
        return target.best(values) if values else None

    @cached_property
    def _steps(self) -> StepTimes:
        return StepTimes([event for event in self.outcome.events if is_worker(event.actor)])

    def _last(self, name: str) -> list[float]:
        """The seconds of its last steps, of those since it is slower."""
        change = self._steps.changes().get(name)
        times = self._steps.times[name]
        since = 0.0 if change is None else change.since
        later = [seconds for time, seconds in times if time > since] or [seconds for _, seconds in times]
        return (later[1:] or later)[-_STEPS:]
