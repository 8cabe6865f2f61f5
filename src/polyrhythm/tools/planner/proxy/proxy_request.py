"""A request for a plan by smaller versions of a model, and the course of such a plan. `plan` and the command line make them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.progress import board
from polyrhythm.errors import CompositionError
from polyrhythm.tools.measuring.machine_speed import machine_here
from polyrhythm.tools.planner.answer import Plan
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.plan import HERE, PlanRequest, names_of, source_of
from polyrhythm.tools.planner.proxy.as_plan import as_plan
from polyrhythm.tools.planner.proxy.family import AUTOMATIC, family_of, is_given
from polyrhythm.tools.planner.proxy.first_look import looked_at
from polyrhythm.tools.planner.proxy.methods import MOST_WAYS, leading_ways, named_ways
from polyrhythm.tools.planner.proxy.proxy_answer import ProxyAnswer
from polyrhythm.tools.planner.proxy.proxy_planner import SEEDS, ProxyPlanner
from polyrhythm.tools.planner.proxy.sizes import affordable, count_family
from polyrhythm.tools.pools.pools import Done, Pool

_LOOKED, _LEAST = 0.005, 1.0
"""Each run that looks at the JOB may take this part of the time, and at least so many seconds."""


def _nothing(text: str) -> None:
    """The default for progress: nothing is shown."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request for a plan by smaller versions of the model: `whole` is what is planned, `sizes` the family, as of `--proxy`.

    Each of `sizes` is "KEY=A,B,C", or there is one, "KEY" or "auto". Every method trains under `seeds` seeds as far as there is time.
    Raises PolyrhythmErrors for what cannot be.
    """

    whole: PlanRequest
    sizes: Sequence[str] = (AUTOMATIC,)
    seeds: int = SEEDS

    def __post_init__(self) -> None:
        if not self.sizes:
            raise CompositionError(
                "A proxy plan takes a family of smaller models: give its setting of size, such as --proxy width, or auto."
            )
        if self.whole.objective != "time":
            raise CompositionError(
                f"A proxy plan is for the least time, and the objective is {self.whole.objective}: leave it out; bytes are shown too."
            )
        if self.seeds < 1:
            raise CompositionError(f"{self.seeds} seeds train nothing: give 1 or more.")


@dataclass(frozen=True, slots=True)
class ProxyPlanning:
    """A request for `train`, which commands call `job`; `pool` makes its runs, `invocation` says how a choice is run."""

    request: ProxyRequest
    train: Train
    job: str
    pool: Callable[[Done], Pool]
    invocation: Invocation
    facts: Mapping[str, str] = field(default_factory=dict)
    on_progress: Callable[[str], None] = _nothing

    def plan(self) -> Plan:
        """Make the plan. Raises PolyrhythmErrors for a family that cannot be, and for a JOB that cannot be run."""
        whole, budget = self.request.whole, Budget(self.request.whole.budget)
        known = whole if whole.devices != HERE else replace(whole, devices="cpu-core")
        scenario = known.scenario(self.train, self.job, self.facts)
        scenario.set({})
        family = count_family(family_of(self.request.sizes, scenario), scenario)
        ways = named_ways(known)
        if not is_given(self.request.sizes):
            runs = self.request.seeds * (1 + len(ways or range(MOST_WAYS)))
            family = affordable(family, scenario, runs, (known.jobs or os.cpu_count() or 1) * known.budget)
        if whole.devices == HERE:
            self.on_progress("timing steps on this machine")
            known = replace(known, devices=machine_here(self.train, self.job, {**known.settings, **dict(family.sizes[-1].settings)}))
            scenario = known.scenario(self.train, self.job, self.facts)
        scenario, remarks = looked_at(scenario, family.sizes[0], max(_LEAST, _LOOKED * known.budget))
        methods = ways or leading_ways(known, self.train, scenario, family, self.pool)
        cache = MeasureCache(None if known.cache is None else Path(known.cache))
        planner = ProxyPlanner(scenario, family, methods, self.pool, budget, cache, self.request.seeds, self.on_progress)
        planner.remarks += remarks
        planner.run()
        return as_plan(ProxyAnswer(planner, self.invocation).plan(), known)


def planned_by_proxies(train: Train, whole: PlanRequest, sizes: Sequence[str]) -> Plan:
    """The plan of `train`, with a line of progress. Raises PolyrhythmErrors for what cannot be planned."""
    bundled, name = names_of(train)
    facts = {} if whole.cache is None else source_of(train)
    invocation = replace(whole.invocation(bundled or None), function=name)
    with board(1, wanted=True) as line, kept_out(line.output):
        return ProxyPlanning(ProxyRequest(whole, sizes), train, name, whole.pool_with(line), invocation, facts, line.remark).plan()
