"""The best few of a plan, run for real for a short time: the time that their systems add to the steps, and the correction for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from statistics import mean, median

from msgspec.structs import replace

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import PolyrhythmError
from polyrhythm.hardware.devices import Machine, Profile
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.tools.measuring.calibrate import APART, device_profile
from polyrhythm.tools.planner.answer import Choice, Plan, Refusal
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.forecast import deviation, forecast
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Spent
from polyrhythm.tools.planner.tasks import TrainingTask
from polyrhythm.tools.pools.pools import Done, Pool

_LONGER = 2.0
"""Runs may take so many times the samples that were needed before."""

_STEPS = 32
"""Steps of machines that were measured differ; so many are averaged."""

Timed = Callable[[Train, int, Strategy], Profile]
"""The steps of a training function with so many real workers under a strategy."""


def timed_here(train: Train, workers: int, strategy: Strategy) -> Profile:
    """Time the steps in processes of this machine."""
    return device_profile(train, workers=workers, strategy=strategy)


@dataclass(slots=True)
class Verification:
    """Corrects plans by `timed` steps: codecs, merges and copies take the time of processors too, which searches in virtual time leave out.

    The time of a system's steps over that of steps without any system, both measured with as many workers on this machine, is the factor by
    which steps take longer on the machines of the plan; with these the choice runs in virtual time again, under all seeds. `failed` is
    called with a choice whose run fails; that choice keeps its prediction.
    """

    found: Findings
    pool: Callable[[Done], Pool]
    failed: Callable[[str, PolyrhythmError], None]
    timed: Timed = timed_here
    plain: dict[tuple[int, object], float] = field(default_factory=dict)

    def correct(self, plan: Plan, first: Sequence[Choice]) -> Plan:
        """The plan with these choices as they are with such machines, ranked anew, before its other ones."""
        runs = self._runs(first, plan.seeds)
        spread = deviation({name: [run.end.seconds for run in those if run.end is not None] for name, those in runs.items()})
        corrected = [self._corrected(choice, runs[choice.name], spread) if choice.name in runs else choice for choice in first]
        missed = [each.name for each in corrected if each.cost == math.inf]
        plan.refused.extend(
            Refusal(name, "with what its system computes, as measured here, it does not come to the target") for name in missed
        )
        alone = [each for each in plan.choices if each.is_alone and each.name not in {choice.name for choice in first}]
        there = sorted((each for each in (*corrected, *alone) if each.name not in missed), key=lambda each: (each.cost, each.nbytes))
        looked_at = {each.system for each in (*first, *alone)}
        plan.seeds_used = plan.seeds
        best, known = plan.best, {each.name: each for each in there}
        plan.scatter = [known.get(each.name, each) for each in plan.scatter if each.name not in missed]
        plan.choices = [*there, *(each for each in plan.choices if each.system not in looked_at)]
        plan.refused = [each for each in plan.refused if each.name not in known]
        if best is None or plan.best is None or plan.best.name != best.name:
            plan.remedies = []  # they are what would help the former first choice
        return plan

    def _runs(self, choices: Sequence[Choice], seeds: Sequence[int]) -> dict[str, list[TrainedRun]]:
        """The runs of every choice that could be timed, under each seed."""
        scenario, found = self.found.scenario, self.found
        wanted: list[tuple[Candidate, int, Fleet, int]] = []
        for choice in choices:
            candidate = choice.candidate
            try:
                machines = self._machines(candidate)
            except PolyrhythmError as problem:
                self.failed(choice.name, problem)
                continue
            wanted += [(candidate, seed, machines, found.steps(candidate, _LONGER * choice.samples)) for seed in seeds]
        runs: dict[str, list[TrainedRun]] = {}

        def done(place: int, attempt: Attempt) -> None:
            candidate, _, _, steps = wanted[place]
            runs.setdefault(candidate.name, []).append(self.found.read(candidate, attempt, steps))

        tasks = (
            TrainingTask(scenario.among(candidate).elsewhere(devices=machines), candidate, found.objective_of(candidate), seed, steps)
            for candidate, seed, machines, steps in wanted
        )
        self.pool(done).work((place, task, None) for place, task in enumerate(tasks))
        return runs

    def _machines(self, candidate: Candidate) -> Fleet:
        """The machines of the plan, with the candidate's own computing on them."""
        train = self.found.scenario.trained(candidate)
        alike = candidate.workers, candidate.settings
        if alike not in self.plain:
            self.plain[alike] = mean(self.timed(train, candidate.workers, APART).seconds_per_step)
        own = self.timed(train, candidate.workers, candidate.strategy)
        machines = self.found.charged(self.found.scenario, candidate).devices

        def slower(machine: Machine) -> Profile:
            scale = mean(machine.step_seconds(0.0, step) for step in range(_STEPS)) / self.plain[alike]
            return Profile(machine.name, tuple(each * scale for each in own.seconds_per_step), own.seconds_per_contribution * scale)

        slowed = tuple(map(slower, machines.machines))
        return changed(machines, machines=slowed, server=slowed[0])

    def _corrected(self, choice: Choice, runs: Sequence[TrainedRun], spread: tuple[float, int]) -> Choice:
        objective = self.found.objective_of(choice.candidate)
        ends = [run.end for run in runs if run.end is not None]
        cost = median(run.cost(objective, choice.workers) for run in runs)
        if cost == math.inf:
            return replace(choice, cost=cost)
        seconds, prices = forecast([end.seconds for end in ends], *spread), objective.prices
        spent = Spent(seconds.middle, median(end.nbytes for end in ends), choice.workers)
        return replace(
            choice,
            corrected=seconds.middle / choice.seconds.middle if choice.seconds.middle else None,
            seconds=seconds,
            nbytes=spent.nbytes,
            samples=median(end.samples for end in ends),
            cost=cost,
            money=None if choice.money is None else spent.money(prices),
            energy=spent.energy(prices),
            reached=len(ends),
            seeds=len(runs),
        )
