"""From a request to a plan: the search, what it found put into figures, and what they depend on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from statistics import median

from msgspec.structs import replace

from polyrhythm.core.records.metrics import show_metric
from polyrhythm.tools.planner.acquaintance import Acquaintance
from polyrhythm.tools.planner.answer import INTERRUPTED, Choice, PhaseMap, Plan, PresentAnswer, Refusal
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate, first_of_each
from polyrhythm.tools.planner.circumstances import CAUSES, REMEDIES, RISKS
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.interruptions import Interruptions
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.machine_costs import interruptions_of
from polyrhythm.tools.planner.outlook import Outlook
from polyrhythm.tools.planner.phase_map import COMPARED, PhaseMaps
from polyrhythm.tools.planner.predictions import Predictions
from polyrhythm.tools.planner.rehearsal import Rehearsal, within
from polyrhythm.tools.planner.search import Search
from polyrhythm.tools.planner.start_hour import start_remarks
from polyrhythm.tools.pools.pools import Done, Pool

_SHOWN = 10
"""A plan lists so many systems."""
_LOOKED_AT = 3
"""And knows of so many what they wait for and what would harm them."""

_DOUBTFUL = 5.0
"""What is extrapolated is listed if it should cost at most so many times what the best does."""

_SELDOM = 0.2
"""What misses the target under a larger part of its seeds comes after what misses it under a smaller one."""
_LONGER = 4.0
"""With twice the length it may cost so many times as much."""
_REHEARSED = 4
"""At most so many choices are executed before one is printed."""
_NEARLY = 1.1
"""One machine alone comes first where it takes so many times what others do together: the error of virtual time is as large."""
_OBSTACLE = "nothing was searched"
_TIME_UP = "the time was up"
_UNMEASURED = "no run gave a value of"


def _nothing(text: str) -> None:
    """The default for progress: nothing is shown."""


def _nobody(standing: PresentAnswer) -> None:
    """The default for the present answer: nobody watches."""


@dataclass(slots=True)
class Planner:
    """Makes a plan within `budget`; `pool` makes its runs, `at_once` so many, `invocation` says how a choice is run.

    `on_remark` is called with what is to be known of the JOB as soon as that was found, `on_answer` with the present answer after each
    run. Times with `interruptions` are predicted too.
    """

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    invocation: Invocation = field(default_factory=lambda: Invocation(None))
    at_once: int = 1
    on_remark: Callable[[str], None] = _nothing
    on_answer: Callable[[PresentAnswer], None] = _nobody
    interruptions: Interruptions | None = None
    search: Search = field(init=False)
    outlook: Outlook = field(init=False)
    rehearsal: Rehearsal = field(init=False)
    acquaintance: Acquaintance = field(init=False)
    predictions: Predictions = field(init=False)
    obstacle: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.search = Search(self.found, self.pool, self.budget, at_once=self.at_once, on_change=self._changed)
        self.outlook = Outlook(self.found, self.pool, self.budget)
        self.rehearsal = Rehearsal(self.found, self.pool, self.budget, [self.search.last_seed + each for each in (1, 2, 3)])
        self.predictions = Predictions(self.found)
        self.acquaintance = Acquaintance(self.found, self.budget, self.at_once)

    def plan(self) -> Plan:
        """The answer; what is known if this is interrupted."""
        ended = _TIME_UP
        try:
            self.obstacle = self.acquaintance.obstacle()
            if self.obstacle:
                return self.answer(_OBSTACLE)
            for remark in self.acquaintance.remarks:
                self.on_remark(remark)
            self.search.run()
            ended = self.search.ended or _TIME_UP
            if self.found.runs + self.found.kept and not self.found.measured:
                ended = self._unmeasured()
            self._rehearse()
            leading = self.leading()[:_LOOKED_AT]
            self.outlook.look(leading[:1], {**CAUSES, **RISKS, **REMEDIES})
            self.outlook.change_crews(leading[:1])
            self.outlook.look(leading, {**CAUSES, **RISKS})
            self.outlook.change_crews(leading)
        except KeyboardInterrupt:
            ended = INTERRUPTED
        return self.answer(ended)

    def _changed(self) -> None:
        standing = self.present()
        if standing is not None:
            self.on_answer(standing)

    def _rehearse(self) -> None:
        """Execute the first choice as it will be printed; where another comes first then, that one."""
        for _ in range(_REHEARSED):
            leading = self.leading()[:1]
            if not leading or leading[0] in self.rehearsal.executed or self.found.cost_of(leading[0]) == math.inf:
                return
            choice = self.choice(leading[0])
            assert choice is not None
            self.rehearsal.execute(leading[0], choice.seconds, within(choice.seconds, choice.samples))
            if leading[0] not in self.rehearsal.executed:
                return  # the time is up
            if self._missed(leading[0]):
                self._lengthen(leading[0])

    def _lengthen(self, candidate: Candidate) -> None:
        """If the schedule depends on the length, try twice that of a candidate that missed the target, under the same seeds."""
        found, space = self.found, self.found.space
        if "length" in space.varied:
            length = 2 * space.factors(candidate)["length"]
            if length <= max(space.varied["length"][2]):
                longer = space.changed(candidate, length=length)
                steps, most = found.steps(longer, length * found.samples), _LONGER * found.cost_of(candidate)
                self.search.make(((longer, seed, steps, most) for seed in sorted(found.trainings[candidate])), 1.0)

    def answer(self, ended: str, maps: Sequence[PhaseMap] = ()) -> Plan:
        """The plan, from all that is known by now."""
        found, scenario = self.found, self.found.scenario
        leading = self.leading()
        choices = [choice for each in leading if (choice := self.choice(each)) is not None]
        scatter = [choice for each in found.ranked() if each not in found.refused and (choice := self.choice(each)) is not None]
        return Plan(
            scenario.job,
            str(scenario.target),
            found.objective.name,
            scenario.network.name,
            ", ".join(dict.fromkeys(each.name for each in scenario.devices.machines)),
            list(found.space.workers),
            choices[:_SHOWN],
            self.choice(found.best_alone),
            [Refusal(each.name, reason) for each, reason in found.refused.items()],
            self.outlook.remedies(leading[0]) if leading else [],
            list(maps),
            found.runs,
            found.kept,
            self.budget.spent(),
            ended,
            self.search.all_seeds,
            self._compared(scatter),
            "" if choices else self._nearest(),
            sorted({seed for each in leading for seed in found.trainings[each]}) or [scenario.seed],
            [*self.acquaintance.remarks, *(scenario.computed if choices else []), *start_remarks(found, choices)],
            self.obstacle,
            self._interrupted,
        )

    @property
    def _interrupted(self) -> str:
        """The interruptions in words, those of the machines where none were given for all; empty for none."""
        own = any(each.interruptions for each in self.found.scenario.devices.terms)
        return str(self.interruptions or ("the interruptions of the machines" if own else ""))

    def _unmeasured(self) -> str:
        given = ", ".join(sorted(self.found.metrics))
        remedy = f"the JOB gives {given}" if given else "the JOB must give it to worker.evaluate or worker.report"
        return f"{_UNMEASURED} {self.found.scenario.target.metric}: {remedy}"

    def _nearest(self) -> str:
        """The best value of all runs, and whose it was."""
        target, runs = self.found.scenario.target, self.found.trainings
        known = {each: value for each in runs for training in runs[each].values() if (value := training.best(target)) is not None}
        best = target.best(known.values()) if known else None
        return next((f"the best was {target.metric} {show_metric(best)}, with {each.name}" for each in known if known[each] == best), "")

    def _compared(self, choices: Sequence[Choice]) -> list[Choice]:
        """The choices, each with its shortfall in quality from the best."""
        qualities = [each.quality for each in choices if each.quality is not None]
        best = self.found.scenario.target.best(qualities) if qualities else 0.0
        return [replace(each, shortfall=None if each.quality is None else abs(best - each.quality)) for each in choices]

    def maps(self, seconds: float) -> list[PhaseMap]:
        """Maps of the systems that would win elsewhere, made within so many further seconds."""
        limit = Budget(seconds, self.budget.now, self.budget.day)
        self.search.follow(COMPARED, (self.budget.spent() + seconds) / self.budget.seconds)
        return PhaseMaps(self.found, self.pool, limit.left).maps(self.leading())

    def leading(self) -> list[Candidate]:
        """The best candidate of each system, the best first: by the median over seeds, and those extrapolated last.

        One that has run under one seed only comes before those with several where even its upper bound is below their lower bounds.
        """
        found = self.found
        offered = {each for each in found.trainings if each not in found.refused and found.offers(each)}
        costs = {each: cost for each in offered if (cost := found.typical(each)) < math.inf}
        confirmed = {each for each in costs if len(found.trainings[each]) > 1}
        lowest = min((self.predictions.bounds(each).low for each in confirmed), default=math.inf)
        doubtful = {each for each in costs if each not in confirmed and self.predictions.bounds(each).high >= lowest}
        order = sorted(costs, key=lambda each: (self._missed(each) > _SELDOM, self._missed(each) > 0, each in doubtful, found.order(each)))
        reached = self._alone_first([each for each in order if found.cost_of(each) < math.inf])
        worst = _DOUBTFUL * min((costs[each] for each in reached), default=math.inf)
        others = [each for each in order if each not in reached and costs[each] <= worst]
        return first_of_each([*reached, *others])

    def _missed(self, candidate: Candidate) -> float:
        """The part of its seeds under which it did not come to the target, where it has run under several."""
        runs = self.found.trainings[candidate].values()
        return sum(training.end is None for training in runs) / len(runs) if len(runs) > 1 else 0.0

    def _alone_first(self, order: list[Candidate]) -> list[Candidate]:
        """The order, with one machine alone before others that are hardly faster."""
        found, alone = self.found, self.found.best_alone
        if alone not in order or found.typical(alone) > _NEARLY * found.typical(order[0]) or self._missed(alone):
            return order
        return [alone, *(each for each in order if each != alone)]

    def contenders(self, count: int) -> list[Choice]:
        """The best few systems as far as their curves tell, also such as were ruled out because they cost more than the best."""
        found = self.found
        others = [each for each in found.trainings if found.expected(each) < math.inf and found.fits(each)]
        order = [*self.leading(), *sorted(others, key=found.expected)]
        return [choice for each in first_of_each(filter(found.offers, order))[:count] if (choice := self.choice(each)) is not None]

    def choice(self, candidate: Candidate) -> Choice | None:
        """The prediction for the candidate; None where there can be none."""
        runs = list(self.found.trainings.get(candidate, {}).values())
        reached = [training for training in runs if training.end is not None]
        if not reached and self.found.expected(candidate) == math.inf:
            return None
        spent, seconds = self.predictions.spent(candidate, reached)
        objective, target = self.found.objective_of(candidate), self.found.scenario.target
        qualities = [best for training in runs if (best := training.best(target)) is not None]
        samples = median([training.end.samples for training in reached if training.end]) if reached else self.found.needed(candidate)
        scenario, prices = self.found.scenario, objective.prices
        whole = self.found.printed(candidate, within(seconds, samples))
        executed = self.rehearsal.executed.get(candidate)
        return Choice(
            candidate.name,
            candidate.system,
            candidate.workers,
            dict(candidate.options),
            dict(candidate.settings),
            len(reached),
            len(runs),
            seconds,
            spent.nbytes,
            samples,
            objective.cost(spent),
            median(qualities) if qualities else None,
            None,
            self.found.memory(candidate),
            spent.money(prices) if prices.given else None,
            spent.energy(prices),
            self.invocation.command(whole),
            self.invocation.code(whole),
            changed(self.invocation, seed=scenario.seed if executed is None or not executed.seeds else executed.seeds[0]).rehearsal(whole),
            self.outlook.waits(candidate),
            self.outlook.risks(candidate),
            self.outlook.crew(candidate, seconds.middle, self._interruptions(candidate)),
            executed=executed,
            machines=candidate.machines,
            probability=self.search.beliefs.probability(candidate),
            like=next((run.like for run in runs if run.like), ""),
            shared=sum(bool(run.like) for run in runs),
        )

    def present(self) -> PresentAnswer | None:
        """The first choice by what is known now, and the probability that it is the best; None before any has come to the target."""
        first = next((each for each in self.leading() if self.found.cost_of(each) < math.inf), None)
        if first is None:
            return None
        seconds = median([run.end.seconds for run in self.found.trainings[first].values() if run.end is not None])
        probability = self.search.beliefs.probability(first)
        return PresentAnswer(first.name, seconds, self.found.typical(first), probability, self.budget.spent())

    def _interruptions(self, candidate: Candidate) -> Interruptions | None:
        return interruptions_of(self.found.scenario.among(candidate).devices, candidate.workers, self.interruptions)
