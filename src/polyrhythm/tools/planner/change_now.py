"""What to change in a run that is under way: how long each choice takes from the value that the run has to the target."""

from __future__ import annotations

import math
from inspect import signature
from statistics import median

from polyrhythm.core.units import show_ratio, show_seconds
from polyrhythm.systems import SYSTEMS
from polyrhythm.systems.declaration import canonical, paper_names_of
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.recorded import RecordedRun

_LATE = 2.0
"""What the run as it is still takes may be found out for so many times the time of the search."""
_PATIENCE = 3.0
"""It may need so many times the samples that any other way needed."""
_WORTH = 0.9
"""A change is advised where it takes less than this part of the time that is left."""


def own_candidate(recorded: RecordedRun) -> Candidate | None:
    """The run's own way of training, where that is a system with the options that its record names; None for other compositions."""
    system = recorded.outcome.summary.system
    if system not in SYSTEMS or recorded.workers < 2:
        return None
    usual = {name: each.default for name, each in signature(SYSTEMS[system]).parameters.items()}
    given = canonical(system, recorded.options, paper_names_of(SYSTEMS[system]))
    own = Candidate(system, recorded.workers, tuple((name, value) for name, value in given.items() if value != usual.get(name)))
    return own if recorded.outcome.settings.get("strategy", "") in ("", repr(own.strategy)) else None


def remaining(run: TrainedRun, recorded: RecordedRun, planner: Planner) -> float:
    """The seconds that a candidate takes from the value that the recorded run has to the target; infinite where it does not come there."""
    target = planner.found.scenario.target
    value = recorded.value(target)
    if run.end is None:
        return math.inf
    if value is None:
        return run.end.seconds
    passed = [point for point in run.curve[: run.reached + 1] if (point.value >= value) == target.higher_is_better or point.value == value]
    return run.end.seconds - (passed[0].seconds if passed else run.end.seconds)


def left_of(candidate: Candidate, recorded: RecordedRun, planner: Planner) -> float:
    """The median over the candidate's runs."""
    runs = planner.found.trainings.get(candidate, {}).values()
    return median([remaining(run, recorded, planner) for run in runs]) if runs else math.inf


def best_change(recorded: RecordedRun, planner: Planner) -> Candidate | None:
    """The leading candidate that takes least from here, if that is worth a change.

    None where the run is to go on as it is, also because nothing is known of how long that takes.
    """
    own, best = own_candidate(recorded), _fastest(recorded, planner)
    if best is None or own is None or best == own or not planner.found.trainings.get(own):
        return None
    return best if left_of(best, recorded, planner) < _WORTH * left_of(own, recorded, planner) else None


def _fastest(recorded: RecordedRun, planner: Planner) -> Candidate | None:
    leading = [each for each in planner.leading() if not each.is_alone]
    return min(leading, key=lambda each: left_of(each, recorded, planner), default=None)


def run_own(recorded: RecordedRun, planner: Planner) -> None:
    """Have the run's own way trained to the target on the recorded machines, and that without the slowest of them, if the search has not.

    Leaving out what is slow is the nearest remedy, and a short search may not come to it.
    """
    own, found = own_candidate(recorded), planner.found
    if own is None:
        return
    fewer = [each for each in map(own.on, found.space.without_slowest) if not found.impossible(each)]
    unended = [each for each in (own, *fewer) if (training := found.training(each)) is None or training.end is None]
    for each in unended:
        found.refused.pop(each, None)
        found.trainings.pop(each, None)
    ends = [run.end.samples for runs in found.trainings.values() for run in runs.values() if run.end is not None]
    most = _PATIENCE * max(ends, default=found.samples)
    planner.search.make([(each, found.scenario.seed, found.steps(each, most), math.inf) for each in unended], _LATE, _LATE)


def advice(recorded: RecordedRun, planner: Planner) -> str:
    """What to change now, with the gain; where the run's own way was not tried, how long the best other way takes."""
    own, best = own_candidate(recorded), best_change(recorded, planner)
    value, target = recorded.value(planner.found.scenario.target), planner.found.scenario.target
    at = "" if value is None else f"The run has come to {target.metric} {value:.4g}. "
    if value is not None and target.met_by(value):
        return f"{at}That is the target already: give --to a harder one to learn what would be faster from here."
    if own is None or not planner.found.trainings.get(own):
        return f"{at}{_untried(own, _fastest(recorded, planner), recorded, planner)}"
    now = left_of(own, recorded, planner)
    if best is None:
        return f"{at}Nothing else is known to be faster from here: let it go on" + (
            f", for about {show_seconds(now)}." if now < math.inf else "."
        )
    left = left_of(best, recorded, planner)
    stays = "does not come there" if now == math.inf else f"takes about {show_seconds(now)}, {show_ratio(now / max(left, 1e-9))}"
    return f"{at}Change now to {best.name}: about {show_seconds(left)} more to {target}; as it is, the run {stays}."


def _untried(own: Candidate | None, best: Candidate | None, recorded: RecordedRun, planner: Planner) -> str:
    """What is known where nothing is of the run as it is."""
    why = (
        "there was no time to try that"
        if own is not None
        else "it is no published system with options that its record names, and only such were tried"
    )
    left = math.inf if best is None else left_of(best, recorded, planner)
    other = (
        ""
        if best is None or left == math.inf
        else f"{best.name} takes about {show_seconds(left)} more to {planner.found.scenario.target}. "
    )
    return f"{other}How long the run takes as it is, is not known: {why}."
