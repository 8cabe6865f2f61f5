"""`plan_proxy`: the way of training that suits a model which is too large to try. The command line makes a `ProxyRequest`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.progress import board
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.here import machine_here
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.plan import HERE, WORKERS, PlanRequest, source_of
from polyrhythm.tools.planner.proxy.family import AUTOMATIC, family_of, is_given
from polyrhythm.tools.planner.proxy.methods import MOST_WAYS, leading_ways, named_ways
from polyrhythm.tools.planner.proxy.proxy_answer import ProxyAnswer
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyPlan
from polyrhythm.tools.planner.proxy.proxy_planner import SEEDS, ProxyPlanner
from polyrhythm.tools.planner.proxy.sizes import affordable, count_family
from polyrhythm.tools.pools.pools import Done, Pool

PROXY_BUDGET = 600.0
"""Seconds that a proxy plan may take, where nothing else is said."""


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

    def plan(self) -> ProxyPlan:
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
        methods = ways or leading_ways(known, self.train, scenario, family, self.pool)
        cache = MeasureCache(None if known.cache is None else Path(known.cache))
        planner = ProxyPlanner(scenario, family, methods, self.pool, budget, cache, self.request.seeds, self.on_progress)
        planner.run()
        return ProxyAnswer(planner, self.invocation).plan()


def plan_proxy(
    train: Train,
    to: str,
    sizes: str | Sequence[str] = AUTOMATIC,
    *,
    network: str | Path | Network = "lan",
    devices: str | Path | Machine | Fleet = "cpu-core",
    workers: Sequence[int] = WORKERS,
    budget: float = PROXY_BUDGET,
    systems: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds: int = SEEDS,
    jobs: int | None = None,
    cache: str | Path | None = None,
) -> ProxyPlan:
    """Predict which way of training brings a model that is too large to try to a target soonest, from smaller versions of it.

    `sizes` is the family: "width=32,48,64,96" of a setting of `train`, several such texts for settings that go together, the name of a
    setting alone, or "auto" for one that is found by its name. The true value is that of `train` itself. The other arguments are those of
    `plan`. Methods train at every size with real gradients, and laws carry the samples that they needed to the true size; nothing of that
    size is trained. Raises PolyrhythmErrors for what cannot be planned.
    """
    whole = PlanRequest(
        to,
        network=network,
        devices=devices,
        workers=workers,
        budget=budget,
        systems=systems,
        settings=settings or {},
        seed=seed,
        jobs=jobs,
        cache=cache,
    )
    request = ProxyRequest(whole, (sizes,) if isinstance(sizes, str) else tuple(sizes), seeds)
    bundled = str(getattr(train, "name", "")) if type(train).__module__.startswith("polyrhythm.workloads.") else ""
    name = bundled or str(getattr(train, "__name__", "train"))
    facts = {} if cache is None else source_of(train)
    invocation = replace(whole.invocation(bundled or None), function=name)
    with board(1, wanted=True) as line, kept_out(line.output):
        return ProxyPlanning(request, train, name, whole.pool_with(line), invocation, facts, line.remark).plan()
