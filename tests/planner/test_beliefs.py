"""What a search believes: curves, the law over candidates, shared curves, and how probable the answer is."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from polyrhythm.core.records.metrics import parse_target
from polyrhythm.tools.planner.answer import PresentAnswer
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.certainty import probable
from polyrhythm.tools.planner.learning_curves import LearningCurves, Needed, broad
from polyrhythm.tools.planner.measured import CurvePoint
from polyrhythm.tools.planner.predictions import Predictions
from polyrhythm.tools.planner.samples_law import Observation, SamplesLaw

from .jobs import findings, planner, search

TARGET = parse_target("loss=0.1")
NINE_OF_TEN = NormalDist().inv_cdf(0.95)
GRID = [10.0 * 1.2**step for step in range(40)]


def curve(needed: float, onset: float, bend: float, noise: float, seed: int, until: float) -> list[CurvePoint]:
    """A loss that falls from 1 to 0.1 within the samples `needed`, with a noise of its logarithm, up to `until`."""
    random = np.random.default_rng(seed)
    points = [CurvePoint(0.0, 0.0, 0.0, 1.0)]
    for samples in (each for each in GRID if each <= until):
        way = (math.log1p(samples * onset / needed) / math.log1p(onset)) ** bend + noise * float(random.standard_normal())
        points.append(CurvePoint(samples, 0.0, samples, math.exp(way * math.log(0.1))))
    return points


def test_nine_of_ten_samples_to_the_target_lie_inside_what_early_curves_say() -> None:
    random, inside, tried = np.random.default_rng(3), 0, 0
    for seed in range(60):
        needed, onset = float(np.exp(random.uniform(4.0, 8.0))), float(np.exp(random.uniform(-1.0, 5.5)))
        bend = float(np.exp(random.uniform(-0.6, 1.2)))
        seen = curve(needed, onset, bend, 0.04, seed, needed / float(np.exp(random.uniform(0.3, 2.5))))
        found = LearningCurves(TARGET).needed(seen, seen[-1].samples, broad(400.0))
        tried += 1
        inside += abs(math.log(needed) - found.mean) <= NINE_OF_TEN * found.deviation
    assert inside >= 0.9 * tried


def test_a_late_starter_is_not_ruled_out_by_its_beginning() -> None:
    early = LearningCurves(TARGET).needed(curve(1000.0, 30.0, 0.5, 0.0, 0, 60.0), 60.0, broad(1000.0))
    late = LearningCurves(TARGET).needed(curve(1000.0, 3.0, 4.0, 0.0, 0, 60.0), 60.0, broad(1000.0))
    assert late.deviation > 0.8 * early.deviation
    assert late.mean - NINE_OF_TEN * late.deviation < math.log(1000.0)


def test_what_a_run_says_and_what_was_known_give_what_is_believed() -> None:
    prior, own = Needed(3.0, 1.5), Needed(5.0, 0.5)
    weight = 1 / prior.deviation**2 + 1 / own.deviation**2
    both = Needed((prior.mean / prior.deviation**2 + own.mean / own.deviation**2) / weight, weight**-0.5)
    found = both.without(prior)
    assert (found.mean, found.deviation) == pytest.approx((5.0, 0.5))
    assert prior.without(prior).deviation > 30


def test_a_longer_curve_says_more() -> None:
    found = [
        LearningCurves(TARGET).needed(curve(1000.0, 3.0, 1.0, 0.02, 1, part * 1000.0), part * 1000.0, broad(1000.0)) for part in (0.1, 0.8)
    ]
    assert found[1].deviation < found[0].deviation
    assert abs(found[1].mean - math.log(1000.0)) < 0.3


def terms(workers: int, name: str = "lockstep") -> dict[str, float]:
    return {"one": 1.0, "batch": math.log(workers), f"{name}:": 1.0, f"{name}:workers": math.log(workers)}


@pytest.mark.parametrize("slope", [0.2, 0.6, 1.0])
def test_the_law_predicts_a_number_of_workers_that_was_not_tried_with_its_error(slope: float) -> None:
    def needed(workers: int) -> float:
        return math.log(500.0) + slope * math.log(workers)

    observed = [Observation(terms(workers), Needed(needed(workers), 0.1)) for workers in (1, 2, 4)]
    law = SamplesLaw(400.0, observed, [terms(16), terms(4, "other")])
    (mean, other), (deviation, unknown) = law.predicted([terms(16), terms(4, "other")])
    assert abs(mean - needed(16)) <= NINE_OF_TEN * math.hypot(deviation, 0.2)
    assert unknown > deviation
    assert abs(other - needed(4)) <= 2 * unknown


def test_a_system_that_is_equal_in_lockstep_has_the_time_of_a_run_of_its_own_after_a_few_steps() -> None:
    short, whole = findings(workers=(4,)), findings(workers=(4,))
    own, donor = Candidate("allreduce", 4), Candidate("tree", 4)
    search(short).make([(own, 0, 4, math.inf), (donor, 0, 200, math.inf)], 1.0)
    search(whole).make([(own, 0, 200, math.inf)], 1.0)
    training = short.training(own)
    assert training is not None
    assert training.like == donor.name
    assert short.cost_of(own) == pytest.approx(whole.cost_of(own), rel=0.1)  # evaluations are 9 % apart, at other moments


@pytest.mark.long
def test_the_present_answer_and_its_probability_are_known_from_the_first_seconds_on() -> None:
    made = planner(findings(("allreduce", "tree", "sparknet"), (2, 4)), 12.0)
    seen: list[PresentAnswer] = []
    made.on_answer = seen.append
    plan = made.plan()
    assert seen[0].after < 10.0
    assert all(0.0 <= each.probability <= 1.0 for each in seen)
    assert plan.best is not None
    assert plan.probability == plan.best.probability
    assert plan.probability is not None
    assert plan.probability >= 0.3


def test_a_curve_that_several_share_says_once_how_far_seeds_lie_apart() -> None:
    found = findings(workers=(4,))
    donor, equal = Candidate("tree", 4), [Candidate(name, 4) for name in ("allreduce", "direct")]
    search(found).make([*((each, 0, 4, math.inf) for each in equal), *((donor, seed, 200, math.inf) for seed in (0, 1, 2))], 1.0)
    assert [len(found.trainings[each]) for each in (donor, *equal)] == [3, 3, 3]
    assert Predictions(found).deviation()[1] == 4 + 2  # two of these seeds, and what is usual


def test_a_probability_by_draws_is_shown_neither_as_certain_nor_as_impossible() -> None:
    assert [probable(each) for each in (0.0, 0.0049, 0.01, 0.5, 0.99, 0.9975, 1.0, None)] == [
        *("< 1%", "< 1%", "1%", "50%", "99%", "> 99%", "> 99%", "–")
    ]


def test_nothing_is_believed_to_be_faster_than_its_computing_for_far_fewer_samples_than_others_need() -> None:
    found = findings(("allreduce", "ssp", "diloco", "sparknet", "adpsgd"), (2, 4))
    made = search(found)
    rate = (("learning_rate", 0.1),)
    tried = [Candidate("allreduce", 2, (), rate), Candidate("sparknet", 2, (), rate), Candidate("ssp", 2, (), rate)]
    made.make([(Candidate("single", 1, (), rate), 0, 400, math.inf), *((each, 0, 300, math.inf) for each in tried)], 1e9)
    ends = [found.trainings[each][0].end for each in tried]
    least = min(end.samples for end in ends if end is not None)
    for candidate in (Candidate("diloco", 2, (), rate), Candidate("adpsgd", 4, (), rate)):
        seconds = made.shared.computing(candidate) * (0.5 * least / found.per_step(candidate))
        assert made.beliefs.improvement(candidate, math.log(0.98 * seconds)) == (0.0, 0.0)
        gain, likely = made.beliefs.improvement(candidate, math.log(found.cost_of(tried[0])))
        assert gain > 0
        assert 0 < likely < 1
