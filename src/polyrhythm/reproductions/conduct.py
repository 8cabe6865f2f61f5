"""Runs reproductions: first what tunes each, then every seed, several at once in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import torch

from polyrhythm.report.outcome import versions
from polyrhythm.reproductions import find
from polyrhythm.reproductions.arm import Arm
from polyrhythm.reproductions.findings import Circumstances, Findings, judge, verdict_of
from polyrhythm.reproductions.protocol import Reproduction
from polyrhythm.reproductions.rules import refuse
from polyrhythm.reproductions.trial import Trial

TUNING_SEED = 1000
"""None of those that are measured."""


@dataclass(frozen=True, slots=True)
class ReproductionPlan:
    """How reproductions are run: how many seeds each, on how many processes, and whether quickly."""

    seeds: int
    jobs: int
    quick: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning has come to, and how many runs it took for each arm."""

    settings: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """One seed: its figures and its runs."""

    figures: Mapping[str, float]
    arms: Sequence[Arm]


@dataclass(slots=True)
class _UnderWay:
    reproduction: Reproduction
    began: float
    load: float
    tuned: Tuned = field(default_factory=Tuned)
    measured: dict[int, Measured] = field(default_factory=dict)


def tune(name: str, quick: bool) -> Tuned:
    """What the reproduction `name` tunes before it measures."""
    torch.set_num_threads(1)
    chosen = find(name).tune
    if chosen is None:
        return Tuned()
    trial = Trial(TUNING_SEED, quick, tuning=True)
    settings = chosen(trial)
    return Tuned(dict(settings), trial.tuning_runs)


def measure(name: str, seed: int, quick: bool, tuned: Tuned) -> Measured:
    """One seed of the reproduction `name`."""
    torch.set_num_threads(1)
    trial = Trial(seed, quick, tuned.settings, tuning_runs=dict(tuned.runs))
    return Measured(dict(find(name).measure(trial)), trial.arms)


def conduct(names: Sequence[str], plan: ReproductionPlan, begun: Callable[[str], None] = lambda _: None) -> Iterator[Findings]:
    """The findings of each of `names`, as they are complete. What ends this ends all.

    Raises HonestyError for findings that break a rule, and what measuring raises.
    """
    if plan.jobs == 1:
        for name in names:
            begun(name)
            yield _alone(name, plan)
        return
    pool = ProcessPoolExecutor(plan.jobs, mp_context=get_context("spawn"))
    try:
        yield from _Conductor(pool, plan, begun).findings(names)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Conductor:
    """Keeps a pool busy: the seeds of a reproduction begin when it is tuned, and reproductions in the order of their names."""

    def __init__(self, pool: ProcessPoolExecutor, plan: ReproductionPlan, begun: Callable[[str], None]) -> None:
        self.pool = pool
        self.plan = plan
        self.begun = begun
        self.states: dict[str, _UnderWay] = {}
        self.waiting: dict[Future[Any], tuple[str, int | None]] = {}

    def findings(self, names: Sequence[str]) -> Iterator[Findings]:
        """Of each, when its last seed is complete."""
        left = list(names)
        while left or self.waiting:
            while left and len(self.waiting) < self.plan.jobs:
                self._begin(left.pop(0))
            done, _ = wait(self.waiting, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda each: str(self.waiting[each])):
                yield from self._take(future)

    def _begin(self, name: str) -> None:
        self.begun(name)
        self.states[name] = _UnderWay(find(name), time.monotonic(), os.getloadavg()[0])
        self.waiting[self.pool.submit(tune, name, self.plan.quick)] = (name, None)

    def _take(self, future: Future[Any]) -> Iterator[Findings]:
        name, seed = self.waiting.pop(future)
        state, result = self.states[name], future.result()
        if isinstance(result, Tuned):
            state.tuned = result
            for k in range(self.plan.seeds):
                self.waiting[self.pool.submit(measure, name, k, self.plan.quick, result)] = (name, k)
            return
        assert seed is not None
        state.measured[seed] = result
        if len(state.measured) == self.plan.seeds:
            yield _findings(self.states.pop(name), self.plan)


def _alone(name: str, plan: ReproductionPlan) -> Findings:
    """In this process."""
    state = _UnderWay(find(name), time.monotonic(), os.getloadavg()[0], tune(name, plan.quick))
    for seed in range(plan.seeds):
        state.measured[seed] = measure(name, seed, plan.quick, state.tuned)
    return _findings(state, plan)


def _findings(state: _UnderWay, plan: ReproductionPlan) -> Findings:
    """Judged, and refused if they break a rule."""
    reproduction, seeds = state.reproduction, sorted(state.measured)
    claims = judge(reproduction, [state.measured[seed].figures for seed in seeds])
    where = Circumstances(
        command=f"polyrhythm reproduce {reproduction.name} --seeds {plan.seeds}{' --quick' if plan.quick else ''}",
        cores=os.cpu_count() or 1,
        jobs=plan.jobs,
        threads=1,
        load=round(state.load, 2),
        seconds=round(time.monotonic() - state.began, 1),
        versions=versions(),
    )
    findings = Findings(
        name=reproduction.name,
        systems=list(reproduction.systems),
        paper=reproduction.paper,
        setting=reproduction.setting,
        notes=reproduction.notes,
        stop=reproduction.stop,
        rival=reproduction.rival,
        scaling=reproduction.scaling.value,
        machines=reproduction.machines,
        quick=plan.quick,
        seeds=seeds,
        verdict=verdict_of(claims),
        claims=claims,
        arms=[arm for seed in seeds for arm in state.measured[seed].arms],
        tuning_runs=dict(state.tuned.runs),
        circumstances=where,
    )
    refuse(findings)
    return findings
