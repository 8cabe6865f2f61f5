"""Reproductions are tuned, measured, judged and kept, alone and several at once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import polyrhythm_reproductions.registry as reproductions
from polyrhythm_reproductions.arm import ArmPoint
from polyrhythm_reproductions.conduct import ReproductionPlan, conduct, measure, tune
from polyrhythm_reproductions.findings import ReproductionReport, renewed
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.kept import keep, kept, thinned
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction
from polyrhythm_reproductions.rules import HonestyError
from polyrhythm_reproductions.trial import ArmTrial

RATES = (0.01, 0.03)


def small(rate: float = 0.03) -> Teacher:
    return Teacher(SgdRecipe(rate, 0.9), epochs=1, samples=256, width=16, depth=1)


def try_rates(trial: ArmTrial) -> Figures:
    return {arm: trial.best({rate: trial.train(arm, small(rate), arm, 2) for rate in RATES}) for arm in ("allreduce", "direct")}


def compare(trial: ArmTrial) -> Figures:
    ring, direct = (trial.train(arm, small(trial.tuned[arm]), arm, 2) for arm in ("allreduce", "direct"))
    return {"difference": abs(ring.final - direct.final), "speed-up": ring.seconds / direct.seconds}


TOY = Reproduction(
    name="toy",
    systems=("direct",),
    paper="Somebody: A paper (2005)",
    setting="A job.",
    baseline="allreduce",
    tune=try_rates,
    measure=compare,
    claims=(
        Claim(
            paper="Both have the same bits.", ours="difference of losses", figure="difference", unit="nats", most=0.0, kind=ClaimKind.VALUE
        ),
        Claim(paper="It needs no GPU.", untestable="It was not asked."),
    ),
)


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reproductions.REPRODUCTIONS, "toy", TOY)


def test_tuning_runs_are_counted_for_each_arm_and_chosen_settings_reach_the_measurement() -> None:
    tuned = tune("toy", quick=True)
    assert tuned.runs == {"allreduce": 2, "direct": 2}
    assert set(tuned.settings.values()) <= set(RATES)
    measured = measure("toy", 3, True, tuned)
    assert [(arm.name, arm.seed, arm.tuning_runs) for arm in measured.arms] == [("allreduce", 3, 2), ("direct", 3, 2)]
    assert measured.figures["difference"] == 0.0


def test_findings_are_kept_as_a_page_a_picture_and_data(tmp_path: Path) -> None:
    [findings] = conduct(["toy"], ReproductionPlan(seeds=2, jobs=1, quick=True))
    assert findings.verdict == "reproduced"
    assert findings.seeds == [0, 1]
    text = keep(findings, tmp_path).read_text()
    assert "| Both have the same bits. | difference of losses | at most 0 nats | 0 | reproduced |" in text
    assert "It needs no GPU. It was not asked." in text
    assert "allreduce (the baseline) | 2 | 16, 32 of 256" in text
    assert "quick run" in text
    assert (tmp_path / "toy.svg").read_text().startswith("<svg")
    assert kept(tmp_path) == [thinned(findings)]


def test_too_few_seeds_are_refused_before_anything_is_run() -> None:
    with pytest.raises(HonestyError, match=r"A report on parallel-sgd would be refused: 2 seeds are too few for a verdict"):
        next(conduct(["parallel-sgd"], ReproductionPlan(seeds=2, jobs=1, quick=False)))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_one_that_breaks_a_rule_is_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    def judge(findings: ReproductionReport) -> None:
        if findings.name == "d2l":
            raise HonestyError("The report on d2l is refused.")

    monkeypatch.setattr("polyrhythm_reproductions.conduct.refuse", judge)
    plan, failed = ReproductionPlan(seeds=1, jobs=jobs, quick=True), []
    found = conduct(["d2l", "parallel-sgd"], plan, failed=lambda name, error: failed.append((name, str(error))))
    assert [each.name for each in found] == ["parallel-sgd"]
    assert failed == [("d2l", "The report on d2l is refused.")]


def test_what_would_be_refused_at_the_end_is_refused_after_the_first_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    def judge(findings: ReproductionReport) -> None:
        seen.append(findings.seeds)
        raise HonestyError("no")

    monkeypatch.setattr("polyrhythm_reproductions.conduct.refuse", judge)
    with pytest.raises(HonestyError):
        next(conduct(["toy"], ReproductionPlan(seeds=5, jobs=1, quick=False)))
    assert seen == [[0]]


def test_what_fails_ends_all_where_no_callback_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(findings: ReproductionReport) -> None:
        raise HonestyError("no")

    monkeypatch.setattr("polyrhythm_reproductions.conduct.refuse", judge)
    with pytest.raises(HonestyError):
        next(conduct(["toy"], ReproductionPlan(seeds=1, jobs=1, quick=True)))


def test_figures_and_runs_that_are_not_finite_are_kept_too(tmp_path: Path) -> None:
    [findings] = conduct(["toy"], ReproductionPlan(seeds=2, jobs=1, quick=True))
    findings.claims[0].values, findings.claims[0].median = [math.inf, -math.inf], math.inf
    findings.arms[0].final = math.inf
    findings.arms[0].curve.append(ArmPoint(9, 9.0, math.inf))
    keep(findings, tmp_path)
    assert kept(tmp_path) == [thinned(findings)]


def test_what_was_measured_is_judged_again_by_the_bounds_of_today(tmp_path: Path) -> None:
    [findings] = conduct(["toy"], ReproductionPlan(seeds=2, jobs=1, quick=True))
    assert renewed(findings, TOY) == findings
    stricter = replace(TOY, claims=[replace(TOY.claims[0], most=-1.0)], notes="Tried: nothing.")
    again = renewed(findings, stricter)
    assert (again.verdict, again.notes, again.claims[0].bounds) == ("not reproduced", "Tried: nothing.", "at most -1")
    with pytest.raises(KeyError):
        renewed(findings, replace(TOY, claims=[replace(TOY.claims[0], figure="other")]))


def test_a_run_that_diverges_has_the_worst_quality_and_neither_seconds_nor_bytes() -> None:
    result = ArmTrial(0).train("ours", small(1e30), "allreduce", 2)
    assert result.arm.diverged
    assert (result.final, result.metric("accuracy"), result.metric("loss")) == (math.inf, 0.0, math.inf)
    assert math.isnan(result.seconds)
    assert math.isnan(result.nbytes)
