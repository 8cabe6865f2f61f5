"""From the runs of a proxy plan to its answer: laws are fitted, and each figure is said to be measured, derived or assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polyrhythm.core.records.metrics import Target, show_metric
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.proxy.origins import Origins
from polyrhythm.tools.planner.proxy.prediction import Predicted, paired, predicted
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyChoice, ProxyPlan, ProxyPoint, ProxySize, SampleLawFound
from polyrhythm.tools.planner.proxy.proxy_planner import ProxyPlanner
from polyrhythm.tools.planner.proxy.sample_law import Numbers, PenaltyLaw, SampleLaw, fit_penalty, fit_samples
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

_WIDE = (0.025, 0.975)
_PATIENT = 2.0
"""A method has missed the target where it had so many times the samples of one machine alone under the same seed."""

Needed = dict[int, dict[int, float]]
"""Samples to the target by parameters and seed."""


@dataclass(slots=True)
class ProxyAnswer:
    """The answer of `planner`; `invocation` says how a choice is run."""

    planner: ProxyPlanner
    invocation: Invocation
    target: Target = field(init=False)
    remarks: list[str] = field(default_factory=list)

    def plan(self) -> ProxyPlan:
        """The plan, from all runs that were made."""
        self.target, self.remarks = self.planner.trials.target, [*self.planner.remarks]
        base = self._needed(ALONE)
        if len(base) < LEAST_SIZES:
            return self._answer(None, {}, {}, self._why_none(base))
        law = fit_samples(_lists(base))
        penalties = self._penalties(base)
        found = predicted(law, penalties, self.planner.timings, self.planner.family.true.parameters)
        return self._answer(law, penalties, found, "")

    def _needed(self, method: Candidate) -> Needed:
        """The samples of a method to the target, where it came there."""
        found: Needed = {}
        planner = self.planner
        for size in planner.sizes:
            own = {seed: planner.trials.samples(planner.tuning.at(method, size), seed) for seed in planner.all_seeds}
            if reached := {seed: samples for seed, samples in own.items() if samples < math.inf}:
                found[size.parameters] = reached
        return found

    def _penalties(self, base: Needed) -> dict[Candidate, PenaltyLaw]:
        found = {}
        for method in self.planner.all_methods:
            ratios = paired(base, self._needed(method))
            if method.is_alone:
                found[method] = PenaltyLaw.none()
            elif ratios:
                found[method] = fit_penalty(ratios, method.name)
                if sizes := missed_sizes(self.planner, method, base):
                    self.remarks.append(
                        f"{method.name} did not come to {self.target} at {', '.join(f'{each:,}' for each in sizes)} parameters under some "
                        "seed, where one machine alone did with at most half of the samples: its law is that of the other runs, and "
                        "promises too much."
                    )
            else:
                self.planner.refused[method.name] = f"it did not come to {self.target} at any size in the time: give a longer --budget"
        return found

    def _best_values(self) -> list[float]:
        """The best values of the base at each size, under any seed, the best first."""
        planner, found = self.planner, []
        for size in planner.sizes:
            base = planner.tuning.at(ALONE, size)
            runs = [run for seed in planner.all_seeds if (run := planner.trials.done.get((base, seed))) is not None and not run.error]
            values = [value for run in runs if (value := run.best(self.target)) is not None]
            found += [self.target.best(values)] if values else []
        return sorted(found, reverse=self.target.higher_is_better)

    def _why_none(self, base: Needed) -> str:
        reached = ", ".join(str(count) for count in base) or "none"
        values = ", ".join(show_metric(value) for value in self._best_values()) or "none"
        return (
            f"A law takes {LEAST_SIZES} sizes that come to {self.target}, and there are {len(base)} (parameters: {reached}; best values: "
            f"{values}). Give a longer --budget, a longer training by the JOB's settings, or a target that small models reach."
        )

    # Figures

    def _answer(
        self, law: SampleLaw | None, penalties: Mapping[Candidate, PenaltyLaw], found: Mapping[Candidate, Predicted], obstacle: str
    ) -> ProxyPlan:
        planner, scenario = self.planner, self.planner.scenario
        rate = planner.tuning.law
        choices = [self._choice(each, penalties[each], found[each]) for each in found]
        self._remark(choices)
        return ProxyPlan(
            job=scenario.job,
            target=str(self.target),
            asked=str(scenario.target),
            network=scenario.network.name,
            devices=", ".join(dict.fromkeys(each.name for each in scenario.devices.machines)),
            true=dict(planner.family.family.true),
            parameters=planner.family.true.parameters,
            operations=planner.family.true.shape.flops,
            rate=planner.tuning.rate(ALONE, planner.family.true.parameters),
            rate_exponent=None if rate is None else rate.kappa,
            sizes=[ProxySize(dict(size.settings), size.parameters, planner.tuning.rate(ALONE, size.parameters)) for size in planner.sizes],
            points=[point for method in planner.all_methods for point in self._points(method)],
            law=None if law is None else self._law(law),
            choices=choices,
            origins=Origins(planner).listed(),
            remarks=self.remarks,
            refused=planner.refused,
            runs=planner.trials.runs,
            kept=planner.trials.kept,
            seconds=planner.budget.spent(),
            seeds=planner.all_seeds,
            obstacle=obstacle,
        )

    def _points(self, method: Candidate) -> list[ProxyPoint]:
        planner, found = self.planner, []
        for size in planner.sizes:
            run = planner.tuning.at(method, size)
            for seed in planner.all_seeds:
                if (run, seed) in planner.trials.done:
                    samples = planner.trials.samples(run, seed)
                    reached = None if samples == math.inf else samples
                    rate = planner.tuning.rate(method, size.parameters)
                    found.append(ProxyPoint(method.name, size.parameters, seed, rate, reached))
        return found

    def _law(self, law: SampleLaw) -> SampleLawFound:
        base = _lists(self._needed(ALONE))
        largest = max(base)
        others = {parameters: samples for parameters, samples in base.items() if parameters != largest}
        held_out = None
        if len(others) >= LEAST_SIZES:
            held_out = fit_samples(others).at(largest) / float(np.mean(base[largest]))
        return SampleLawFound(_wide(law.draws[:, 0], law.least), _wide(law.draws[:, 2], law.alpha), law.coefficient, law.scatter, held_out)

    def _choice(self, method: Candidate, penalty: PenaltyLaw, found: Predicted) -> ProxyChoice:
        planner, scenario = self.planner, self.planner.scenario
        timing = planner.timings[method]
        longer = scenario.longer(found.samples.high, method.workers, planner.family.batch)
        whole = planner.tuning.at(method, planner.family.true_size).with_settings({**scenario.settings, **longer})
        low, high = penalty.interval
        return ProxyChoice(
            name=method.name,
            system=method.system,
            workers=method.workers,
            options=dict(method.options),
            settings=dict(whole.settings),
            seconds=found.seconds,
            samples=found.samples,
            nbytes=found.nbytes,
            penalty=found.penalty,
            penalty_exponent=Interval(low, penalty.slope, high),
            seconds_per_sample=timing.pace[0],
            first=found.first,
            sizes=len(self._needed(method)),
            timed="all tensors" if timing.cut == 1 else f"{timing.cut:.3g} times fewer numbers, in tensors of all sizes",
            command=self.invocation.command(whole),
            code=self.invocation.code(whole),
            rehearsal=self.invocation.rehearsal(whole),
        )

    def _remark(self, choices: Sequence[ProxyChoice]) -> None:
        scenario = self.planner.scenario
        own = scenario.samples(self.planner.family.batch)
        if scenario.length is None and choices and choices[0].samples.high > own:
            self.remarks.append(
                f"The JOB trains on {own:,.0f} samples by its own settings, and the first choice may need {choices[0].samples.high:,.0f}: "
                "give it more."
            )


def missed_sizes(planner: ProxyPlanner, method: Candidate, base: Needed) -> list[int]:
    """The sizes, in parameters, at which a run of the method failed or missed the target in twice the samples of the base."""
    found = []
    for size in planner.sizes:
        run = planner.tuning.at(method, size)
        for seed, samples in base.get(size.parameters, {}).items():
            tried = planner.trials.done.get((run, seed))
            late = tried is not None and (bool(tried.error) or tried.samples >= _PATIENT * samples)
            if late and planner.trials.samples(run, seed) == math.inf:
                found.append(size.parameters)
    return list(dict.fromkeys(found))


def _lists(needed: Needed) -> dict[int, list[float]]:
    return {parameters: list(found.values()) for parameters, found in needed.items()}


def _wide(draws: Numbers, middle: float) -> Interval:
    low, high = np.quantile(draws, _WIDE)
    return Interval(float(low), middle, float(high))
