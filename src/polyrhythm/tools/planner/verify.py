"""The best few of a plan, run for real for a short time: the time that their systems add to the steps, and the correction for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from polyrhythm.tools.planner.forecast import Interval, deviation, forecast
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.tasks import TrainingTask
from polyrhythm.tools.pools.pools import Done, Pool

_LONGER = 2.0
"""Runs may take so many times the samples that were needed before."""
_FAR_MORE = 2.0
"""A run is broken off that costs so many times what the best does."""
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

    The time of a system's steps over that of steps without any system, both measured with as many workers on this machine one after the
    other, since its speed may drift, is the factor by which steps take longer on the machines of the plan; with these the choice runs in
    virtual time again, under all seeds. One machine alone has no system that adds to its steps, and is not timed. A run that costs
    far more than the best choice is broken off, and its choice has no further seeds: how much slower its samples were corrects it. `failed`
    is called with a choice whose run fails; that choice keeps its prediction.
    """

    found: Findings
    pool: Callable[[Done], Pool]
    failed: Callable[[str, PolyrhythmError], None]
    timed: Timed = timed_here

    def correct(self, plan: Plan, first: Sequence[Choice]) -> Plan:
        """The plan with these choices as they are with such machines, ranked anew, before its other ones."""
        runs = self._runs(first, plan.seeds)
        spread = deviation({name: [run.end.seconds for run in those if run.end is not None] for name, those in runs.items()})
        corrected = [self._corrected(choice, runs[choice.name], spread) if runs.get(choice.name) else choice for choice in first]
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
        """The runs of every choice that could be timed: first those of the first under each seed, then all others seed by seed."""
        found, machines = self.found, self._all_machines(choices)
        timed = [choice for choice in choices if choice.name in machines]
        wanted = [(choice, seed) for those in (timed[:1], timed[1:]) for seed in seeds for choice in those]
        runs: dict[str, list[TrainedRun]] = {choice.name: [] for choice in timed}

        def tasks() -> Iterator[tuple[int, TrainingTask, None]]:
            for place, (choice, seed) in enumerate(wanted):
                if not any(map(_broken_off, runs[choice.name])):
                    most = math.inf if choice.is_alone else self._most(timed, runs)
                    yield place, self._task(choice, seed, machines[choice.name], most), None

        def done(place: int, attempt: Attempt) -> None:
            choice, _ = wanted[place]
            runs[choice.name].append(found.read(choice.candidate, attempt, self._steps(choice)))

        self.pool(done).work(tasks())
        return runs

    def _task(self, choice: Choice, seed: int, machines: Fleet, most: float) -> TrainingTask:
        """A run of the choice on such machines."""
        candidate = choice.candidate
        here = self.found.scenario.among(candidate).elsewhere(devices=machines)
        return TrainingTask(here, candidate, self.found.objective_of(candidate), seed, self._steps(choice), most)

    def _steps(self, choice: Choice) -> int:
        return self.found.steps(choice.candidate, _LONGER * choice.samples)

    def _most(self, choices: Sequence[Choice], runs: Mapping[str, Sequence[TrainedRun]]) -> float:
        """The cost at which a run is broken off: some times the least typical one so far; infinite before any."""
        return _FAR_MORE * min((self._typical(each, runs[each.name]) for each in choices if runs[each.name]), default=math.inf)

    def _typical(self, choice: Choice, runs: Sequence[TrainedRun]) -> float:
        """The median cost of its runs, one that did not come to the target counting as infinite."""
        objective = self.found.objective_of(choice.candidate)
        return median(run.cost(objective, choice.workers) for run in runs)

    def _all_machines(self, choices: Sequence[Choice]) -> dict[str, Fleet]:
        """The machines of each choice whose steps could be timed, by its name."""
        found: dict[str, Fleet] = {}
        for choice in choices:
            try:
                found[choice.name] = self._machines(choice.candidate)
            except PolyrhythmError as problem:
                self.failed(choice.name, problem)
        return found

    def _machines(self, candidate: Candidate) -> Fleet:
        """The machines of the plan, with the candidate's own computing on them."""
        machines = self.found.charged(self.found.scenario, candidate).devices
        if candidate.is_alone:
            return machines
        train = self.found.scenario.trained(candidate)
        plain = mean(self.timed(train, candidate.workers, APART).seconds_per_step)
        own = self.timed(train, candidate.workers, candidate.strategy)

        def slower(machine: Machine) -> Profile:
            scale = mean(machine.step_seconds(0.0, step) for step in range(_STEPS)) / plain
            return Profile(machine.name, tuple(each * scale for each in own.seconds_per_step), own.seconds_per_contribution * scale)

        slowed = tuple(map(slower, machines.machines))
        return changed(machines, machines=slowed, server=slowed[0])

    def _corrected(self, choice: Choice, runs: Sequence[TrainedRun], spread: tuple[float, int]) -> Choice:
        ends, cost = [run.end for run in runs if run.end is not None], self._typical(choice, runs)
        if cost < math.inf:
            seconds = forecast([end.seconds for end in ends], *spread)
            choice = replace(choice, samples=median(end.samples for end in ends), reached=len(ends), seeds=len(runs))
            return replace(self._with(choice, seconds, median(end.nbytes for end in ends)), cost=cost)
        late = [
            max(run.seconds, run.cost_of(choice.samples, Objective(), choice.workers)) for run in runs if _broken_off(run) and run.samples
        ]
        if not late or not choice.seconds.middle:
            return replace(choice, cost=cost)
        seconds = choice.seconds.times(max(late) / choice.seconds.middle)
        return self._with(choice, seconds, choice.nbytes)

    def _with(self, choice: Choice, seconds: Interval, nbytes: float) -> Choice:
        """The choice with these predictions, and what they cost."""
        objective = self.found.objective_of(choice.candidate)
        prices, spent = objective.prices, Spent(seconds.middle, nbytes, choice.workers)
        return replace(
            choice,
            corrected=seconds.middle / choice.seconds.middle if choice.seconds.middle else None,
            seconds=seconds,
            nbytes=nbytes,
            cost=objective.cost(spent),
            money=None if choice.money is None else spent.money(prices),
            energy=spent.energy(prices),
        )


def _broken_off(run: TrainedRun) -> bool:
    """True if it cost too much before it came to the target."""
    return bool(run.cut) and run.end is None
