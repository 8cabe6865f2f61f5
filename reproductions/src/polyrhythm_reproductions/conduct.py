"""Runs reproductions: first what tunes each, then every seed, several at once in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

import torch

from polyrhythm.core.records.outcome import versions
from polyrhythm_reproductions.arm import Arm
from polyrhythm_reproductions.findings import Circumstances, ReproductionReport, judge, verdict_of
from polyrhythm_reproductions.protocol import Reproduction
from polyrhythm_reproductions.registry import find
from polyrhythm_reproductions.rules import HonestyError, refuse, too_few_seeds
from polyrhythm_reproductions.trial import ArmTrial

TUNING_SEED = 1000
"""None of those that are measured."""


@dataclass(frozen=True, slots=True)
class ReproductionPlan:
    """The plan of reproductions: seeds of each, processes to run on, and whether to be quick."""

    seeds: int
    jobs: int
    quick: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    """The settings that tuning chose, and the number of runs that it took for each arm."""

    settings: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one seed: its figures and its runs."""

    figures: Mapping[str, float]
    arms: Sequence[Arm]


@dataclass(slots=True)
class _TrialUnderWay:
    reproduction: Reproduction
    began: float
    load: float
    tuned: Tuned = field(default_factory=Tuned)
    measured: dict[int, Measured] = field(default_factory=dict)


def tune(name: str, quick: bool) -> Tuned:
    """Tune the settings that the reproduction `name` tunes before it measures."""
    torch.set_num_threads(1)
    chosen = find(name).tune
    if chosen is None:
        return Tuned()
    trial = ArmTrial(TUNING_SEED, quick, tuning=True)
    settings = chosen(trial)
    return Tuned(dict(settings), trial.tuning_runs)


def measure(name: str, seed: int, quick: bool, tuned: Tuned) -> Measured:
    """Measure one seed of the reproduction `name`."""
    torch.set_num_threads(1)
    trial = ArmTrial(seed, quick, tuned.settings, tuning_runs=dict(tuned.runs))
    return Measured(dict(find(name).measure(trial)), trial.arms)


def _raise(name: str, error: Exception) -> None:
    raise error


def conduct(
    names: Sequence[str],
    plan: ReproductionPlan,
    started: Callable[[str], None] = lambda _: None,
    failed: Callable[[str, Exception], None] = _raise,
) -> Iterator[ReproductionReport]:
    """The findings of each of `names`, as they are complete. What ends this ends all.

    Raises HonestyError before anything is run, if the seeds are too few for a verdict. `failed` is called with each whose measuring fails,
    or whose findings break a rule; where it returns, the others continue.
    """
    for name in names:
        if said := too_few_seeds(plan.seeds, plan.quick, [claim.efficiency.value for claim in find(name).testable]):
            raise HonestyError(f"A report on {name} would be refused: {said}")
    if plan.jobs == 1:
        for name in names:
            started(name)
            try:
                findings = _alone(name, plan)
            except Exception as error:
                failed(name, error)
                continue
            yield findings
        return
    pool = ProcessPoolExecutor(plan.jobs, mp_context=get_context("spawn"))
    try:
        yield from _Conductor(pool, plan, started, failed).findings(names)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Conductor:
    """Keeps a pool busy: the seeds of a reproduction begin when it is tuned, and reproductions in the order of their names."""

    def __init__(
        self,
        pool: ProcessPoolExecutor,
        plan: ReproductionPlan,
        started: Callable[[str], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self.pool = pool
        self.plan = plan
        self.started = started
        self.failed = failed
        self.states: dict[str, _TrialUnderWay] = {}
        self.waiting: dict[Future[Any], tuple[str, int | None]] = {}

    def findings(self, names: Sequence[str]) -> Iterator[ReproductionReport]:
        """The report of each, when its last seed is complete."""
        left = list(names)
        while left or self.waiting:
            while left and len(self.waiting) < self.plan.jobs:
                self._begin(left.pop(0))
            done, _ = wait(self.waiting, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda each: str(self.waiting[each])):
                findings = self._taken(future)
                if findings is not None:
                    yield findings

    def _begin(self, name: str) -> None:
        self.started(name)
        self.states[name] = _TrialUnderWay(find(name), time.monotonic(), os.getloadavg()[0])
        self.waiting[self.pool.submit(tune, name, self.plan.quick)] = (name, None)

    def _taken(self, future: Future[Any]) -> ReproductionReport | None:
        name, seed = self.waiting.pop(future)
        if name not in self.states:  # another seed has failed
            return None
        try:
            return self._take(name, seed, future.result())
        except BrokenExecutor:
            raise
        except Exception as error:
            del self.states[name]
            for other in [each for each, (whose, _) in self.waiting.items() if whose == name and each.cancel()]:
                del self.waiting[other]
            self.failed(name, error)
            return None

    def _take(self, name: str, seed: int | None, result: Tuned | Measured) -> ReproductionReport | None:
        """Take the result of a task: after tuning, start the measurements; the report of the reproduction if it was the last."""
        state = self.states[name]
        if isinstance(result, Tuned):
            state.tuned = result
            for k in range(self.plan.seeds):
                self.waiting[self.pool.submit(measure, name, k, self.plan.quick, result)] = (name, k)
            return None
        assert seed is not None
        state.measured[seed] = result
        if len(state.measured) < self.plan.seeds:
            _refuse_early(state, self.plan)
            return None
        found = _findings(state, self.plan)
        del self.states[name]
        return found


def _alone(name: str, plan: ReproductionPlan) -> ReproductionReport:
    """The report of one reproduction, run in this process."""
    state = _TrialUnderWay(find(name), time.monotonic(), os.getloadavg()[0], tune(name, plan.quick))
    for seed in range(plan.seeds):
        state.measured[seed] = measure(name, seed, plan.quick, state.tuned)
        _refuse_early(state, plan)
    return _findings(state, plan)


def _refuse_early(state: _TrialUnderWay, plan: ReproductionPlan) -> None:
    """Refuse what breaks a rule already, however many seeds are still to come: judged as a quick run, which may have few."""
    _findings(state, replace(plan, quick=True))


def _findings(state: _TrialUnderWay, plan: ReproductionPlan) -> ReproductionReport:
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
    findings = ReproductionReport(
        name=reproduction.name,
        systems=list(reproduction.systems),
        paper=reproduction.paper,
        setting=reproduction.setting,
        notes=reproduction.notes,
        stop=reproduction.stop,
        baseline=reproduction.baseline,
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
