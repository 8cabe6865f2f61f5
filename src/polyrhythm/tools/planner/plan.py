"""`plan`: the way of training that suits a model and machines.

Users call `plan`; the command line makes a `PlanRequest`, and both have a `Planner` search.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.records.job_output import kept_out
from polyrhythm.core.records.metrics import Target, parse_target
from polyrhythm.core.records.progress import ProgressLine, board
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.fleet import Fleet, fleet
from polyrhythm.hardware.network import Network
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.measuring.machine_speed import machine_here
from polyrhythm.tools.planner.answer import Plan
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.data_site import DataSite, fetching_seconds
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.interruptions import Interruptions
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.objective import Objective, Prices
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.pools.pools import HOST, Done, Pool, check, pool_of

HERE = "here"
"""The device that is this machine, whose steps are timed before."""
BUDGET = 100.0
"""Seconds that a plan may take, where nothing else is said."""
WORKERS = (2, 4, 8)


@dataclass(frozen=True, slots=True)
@checked
class PlanRequest:
    """A request for a plan. Raises PolyrhythmErrors for values that are not possible.

    Args:
        target: such as "accuracy=0.96".
        network, devices: as of `Simulator`; a network is needed, since candidates differ by what they send. The device "here" is this
            machine, whose steps are timed first.
        workers: the numbers of workers that may be used.
        objective: the quantity to minimize until the target: "time", "bytes", "money" or "energy", at `prices`.
        budget: seconds that the plan may take. memory: bytes that one worker may use, or None.
        systems: the names of those that are tried; all by default. settings: of the JOB, with which all candidates begin.
        jobs: runs at once, by default one for each core; pool: "host", or "ray" for a cluster.
        interruptions: how often an hour each worker is lost, or a trace of preemptions: times with them are predicted too.
        data: the site where the data of the job lie, and how many they are: `FetchedBefore` or `FetchedMeanwhile`.
        cache: a directory in which runs are kept, so that a plan that was stopped continues; in memory alone by default.
    """

    target: str
    network: str | Path | Network = "lan"
    devices: str | Path | Machine | Fleet = "cpu-core"
    workers: Sequence[int] = WORKERS
    objective: str = "time"
    prices: Prices = field(default_factory=Prices)
    budget: float = BUDGET
    memory: float | None = None
    systems: Sequence[str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    jobs: int | None = None
    pool: str = HOST
    cache: str | Path | None = None
    interruptions: float | str | Path | None = None
    data: DataSite | None = None

    def __post_init__(self) -> None:
        check(self.pool)
        if isinstance(self.workers, Crew):
            raise CompositionError(
                f"A plan compares fixed numbers of workers, and {self.workers!r} changes: give numbers, such as [2, 4, 8]."
            )
        if not self.workers or min(self.workers) < 1:
            raise CompositionError(f"workers={list(self.workers)} trains nothing: give numbers of 1 or more.")
        if max(self.workers) < 2:
            raise CompositionError("A plan compares ways of training together, which takes 2 workers or more: give --workers 2..8.")
        if not 0 < self.budget < math.inf:
            raise CompositionError(f"A budget of {self.budget:g} s gives no time: give more than 0 seconds.")
        for name in self.systems or ():
            if name not in SYSTEMS:
                raise unknown("system", name, SYSTEMS)
        if self.memory is not None and self.memory <= 0:
            raise CompositionError(f"memory={self.memory:g} leaves a worker none: give more than 0 bytes, or leave it out.")
        if self.jobs is not None and self.jobs < 1:
            raise CompositionError(f"jobs={self.jobs} runs nothing: give 1 or more.")
        if self.data is not None:
            fetching_seconds(self.data, self._network, max(self.workers))
        if self.devices != HERE:
            fleet(self.devices)
        parse_target(self.target)
        self.interrupted()
        Objective(self.objective, self.prices, self._priced)

    @property
    def _priced(self) -> bool:
        """True if a machine or a line has a price of its own."""
        terms = () if self.devices == HERE else fleet(self.devices).terms
        meters = [site.meter for site in self._network.sites if site.meter is not None]
        return any(each.worker_hour or each.prices for each in terms) or any(each.gigabyte for each in meters)

    @property
    def _network(self) -> Network:
        return self.network if isinstance(self.network, Network) else networks.load(self.network)

    def interrupted(self) -> Interruptions | None:
        """The interruptions that times are predicted with, if any. Raises PolyrhythmErrors for what is no rate and no trace."""
        return None if self.interruptions is None else Interruptions.of(self.interruptions)

    @property
    def goal(self) -> Target:
        """The target as metric and value."""
        return parse_target(self.target)

    def invocation(self, job: str | None, arguments: Sequence[str] = ()) -> Invocation:
        """The invocation of choices of the JOB; in virtual time where its machines have names."""
        named = [("--network", self.network), ("--device", self.devices)]
        given = [part for flag, value in named if isinstance(value, str | Path) and value != HERE for part in (flag, str(value))]
        whole = len(given) == 2 * len(named)
        return Invocation(job, tuple(arguments), ("--on", "simulator", *given) if whole else None, self.seed, self.target)

    def scenario(self, train: Train, job: str, facts: Mapping[str, str]) -> Scenario:
        """The JOB on the machines."""
        devices = fleet(self.devices)
        return Scenario(job, train, self.goal, self._network, devices, self.seed, facts=facts, settings=self.settings, data=self.data)

    def planner(
        self,
        train: Train,
        job: str,
        pool: Callable[[Done], Pool],
        facts: Mapping[str, str] | None = None,
        invocation: Invocation | None = None,
    ) -> Planner:
        """The planner of this plan; `pool` makes its runs."""
        scenario = self.scenario(train, job, facts or {})
        scenario.set({})  # refuses settings that the JOB does not have
        space = Space.of(scenario, tuple(self.systems or SYSTEMS), tuple(self.workers))
        objective = Objective(self.objective, self.prices, self._priced)
        cache = MeasureCache(None if self.cache is None else Path(self.cache))
        found = Findings(scenario, objective, space, cache, math.inf if self.memory is None else self.memory)
        whole, at_once = invocation or self.invocation(job), self.jobs or os.cpu_count() or 1
        return Planner(found, pool, Budget(self.budget), whole, at_once, interruptions=self.interrupted())

    def pool_with(self, line: ProgressLine, seen: Callable[[], None] = lambda: None) -> Callable[[Done], Pool]:
        """Pools of its jobs that show progress on `line` and call `seen` after each run."""
        jobs = self.jobs or os.cpu_count() or 1

        def pool(done: Done) -> Pool:
            def ended(place: int, attempt: Any) -> None:
                done(place, attempt)
                seen()

            return pool_of(self.pool)(jobs, line, ended)

        return pool


def plan(
    train: Train,
    to: str,
    *,
    network: str | Path | Network = "lan",
    devices: str | Path | Machine | Fleet = "cpu-core",
    workers: Sequence[int] = WORKERS,
    objective: str = "time",
    prices: Prices | None = None,
    budget: float = BUDGET,
    memory: float | None = None,
    systems: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    jobs: int | None = None,
    pool: str = HOST,
    cache: str | Path | None = None,
    interruptions: float | str | Path | None = None,
    data: DataSite | None = None,
    proxy: str | Sequence[str] | None = None,
) -> Plan:
    """Search for the way of training that brings `train` to a target soonest, or for the least bytes, money or energy, on given machines.

    `to` is the target, such as "accuracy=0.96"; `PlanRequest` says what the keywords are. Every candidate trains with real
    gradients in virtual time, and what runs next is what is expected to change the answer most for its cost. An interruption ends the
    search, and what is known by then is returned. With a `proxy`, such as "width=32,48,64", smaller versions of the model train instead,
    and `Plan.proxy` has the laws that carry what they need to the model itself. `print(plan_text(plan))` shows the answer.
    Raises PolyrhythmErrors for what cannot be planned.
    """
    wanted = PlanRequest(
        to,
        network=network,
        devices=devices,
        workers=workers,
        objective=objective,
        prices=prices or Prices(),
        budget=budget,
        memory=memory,
        systems=systems,
        settings=settings or {},
        seed=seed,
        jobs=jobs,
        pool=pool,
        cache=cache,
        interruptions=interruptions,
        data=data,
    )
    if proxy is not None:
        from polyrhythm.tools.planner.proxy.proxy_request import planned_by_proxies  # which makes requests of this module

        return planned_by_proxies(train, wanted, (proxy,) if isinstance(proxy, str) else tuple(proxy))
    return _searched(train, wanted)


def names_of(train: Train) -> tuple[str, str]:
    """What the command line calls it, empty for what it cannot; and what a message calls it."""
    bundled = str(getattr(train, "name", "")) if type(train).__module__.startswith("polyrhythm.workloads.") else ""
    return bundled, bundled or str(getattr(train, "__name__", "train"))


def _searched(train: Train, wanted: PlanRequest) -> Plan:
    """The plan of `train`, with a line of progress."""
    with board(1, wanted=True) as line:
        bundled, name = names_of(train)
        facts = {} if wanted.cache is None else source_of(train)
        if wanted.devices == HERE:
            wanted = replace(wanted, devices=machine_here(train, name, wanted.settings))
        called = replace(wanted.invocation(bundled or None), function=name)
        with kept_out(line.output):
            return wanted.planner(train, name, wanted.pool_with(line), facts, called).plan()


def source_of(train: Train) -> dict[str, str]:
    """A digest of the file that defines it. Raises CompositionError where there is none: kept runs of others would look like its own."""
    kind = getattr(train, "train", train)
    kind = kind if inspect.isroutine(kind) else type(kind)
    try:
        file = inspect.getsourcefile(kind)
        return {"job sha256": sha256(Path(file or "").read_bytes()).hexdigest(), "job": f"{kind.__module__}.{kind.__qualname__}"}
    except (OSError, TypeError):
        raise CompositionError(
            f"cache keeps runs by the file of the training function, and {train!r} is in none: define it in a file, or leave cache out."
        ) from None


def workers_of(text: str) -> tuple[int, ...]:
    """The numbers that "2..16" (powers of two, and its ends) or "2,3,6" name. Raises CompositionError for other text."""
    first, dots, last = text.partition("..")
    try:
        if not dots:
            return tuple(sorted({int(each) for each in text.split(",")}))
        least, most = int(first), int(last)
    except ValueError:
        raise CompositionError(f"--workers {text}: write numbers such as 4, 2,4,8 or 2..16.") from None
    if not 1 <= least <= most:
        raise CompositionError(f"--workers {text} names no numbers of workers: write the smaller first, such as 2..16.")
    return tuple(sorted({least, most, *_powers(least, most)}))


def _powers(least: int, most: int) -> Iterable[int]:
    return (2**exponent for exponent in range(least.bit_length() - 1, most.bit_length()) if least <= 2**exponent <= most)
