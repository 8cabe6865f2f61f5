"""The best few of a plan, run for real for a short time, and what that corrects."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from msgspec.structs import replace

from polyrhythm.errors import PolyrhythmError
from polyrhythm.kernel.events import AnyEvent, Stepped
from polyrhythm.kernel.job import Runtime
from polyrhythm.planner.answer import Choice, Plan
from polyrhythm.planner.candidate import Candidate
from polyrhythm.planner.findings import Findings
from polyrhythm.planner.limited import Limited
from polyrhythm.training.run import attempt

_WARM_UP = 8
_STEPS = 48
"""Steps of a real run, without the first eight."""


def verified(plan: Plan, found: Findings, count: int, on: Runtime, failed: Callable[[str, PolyrhythmError], None]) -> Plan:
    """The plan with the times of its first `count` choices multiplied by what measured steps took over predicted ones, ranked anew.

    The machines of the plan should be those of `on`. `failed` is told of a choice whose run fails; it keeps what was predicted.
    """
    corrected = []
    for choice in plan.choices[:count]:
        try:
            factor = _factor(choice, found, on)
        except PolyrhythmError as problem:
            failed(choice.name, problem)
            corrected.append(choice)
            continue
        corrected.append(
            replace(
                choice,
                corrected=factor,
                seconds=choice.seconds.times(factor),
                cost=choice.cost * (factor if plan.objective != "bytes" else 1),
            )
        )
    plan.choices = [*sorted(corrected, key=lambda each: each.cost), *plan.choices[count:]]
    return plan


def _factor(choice: Choice, found: Findings, on: Runtime) -> float:
    candidate = Candidate(choice.system, choice.workers, tuple(choice.options.items()), tuple(choice.settings.items()))
    virtual = found.charged(found.scenario, candidate).on(found.scenario.seed)
    return _seconds(candidate, found, on) / _seconds(candidate, found, virtual)


def _seconds(candidate: Candidate, found: Findings, on: Runtime) -> float:
    """Of a step, once the first are over: the median over workers."""
    times: dict[str, list[float]] = {}

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Stepped):
            times.setdefault(event.actor, []).append(event.time)

    strategy = candidate.strategy
    limited = Limited(found.scenario.trained(candidate), _STEPS, strategy.chooses)
    tried = attempt(limited, workers=candidate.workers, strategy=strategy, on=on, seed=found.scenario.seed, watch=watch)
    if tried.error is not None:
        raise tried.error
    return median((steps[-1] - steps[min(_WARM_UP, len(steps) - 1)]) / max(1, len(steps) - 1 - _WARM_UP) for steps in times.values())
