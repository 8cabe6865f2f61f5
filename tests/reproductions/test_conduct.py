"""Reproductions are tuned, measured, judged and kept, alone and several at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm import reproductions
from polyrhythm.reproductions.conduct import ReproductionPlan, conduct, measure, tune
from polyrhythm.reproductions.jobs.recipes import SgdRecipe
from polyrhythm.reproductions.jobs.teacher import Teacher
from polyrhythm.reproductions.kept import keep, kept
from polyrhythm.reproductions.protocol import Claim, Figures, Reproduction
from polyrhythm.reproductions.rules import HonestyError
from polyrhythm.reproductions.trial import Trial

RATES = (0.01, 0.03)


def small(rate: float = 0.03) -> Teacher:
    return Teacher(SgdRecipe(rate, 0.9), epochs=1, samples=256, width=16, depth=1)


def try_rates(trial: Trial) -> Figures:
    return {arm: trial.best({rate: trial.train(arm, small(rate), arm, 2) for rate in RATES}) for arm in ("allreduce", "direct")}


def compare(trial: Trial) -> Figures:
    ring, direct = (trial.train(arm, small(trial.tuned[arm]), arm, 2) for arm in ("allreduce", "direct"))
    return {"difference": abs(ring.final - direct.final), "speed-up": ring.seconds / direct.seconds}


TOY = Reproduction(
    name="toy",
    systems=("direct",),
    paper="Somebody: A paper (2005)",
    setting="A job.",
    rival="allreduce",
    tune=try_rates,
    measure=compare,
    claims=(
        Claim(paper="Both have the same bits.", ours="difference of losses", figure="difference", unit="nats", most=0.0),
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
    assert "allreduce (the rival) | 2 | 16, 32 of 256" in text
    assert "quick run" in text
    assert (tmp_path / "toy.svg").read_text().startswith("<svg")
    assert kept(tmp_path) == [findings]


def test_findings_that_break_a_rule_are_not_returned() -> None:
    with pytest.raises(HonestyError, match="too few seeds"):
        list(conduct(["toy"], ReproductionPlan(seeds=2, jobs=1, quick=False)))


def test_a_run_that_diverges_has_the_worst_value() -> None:
    result = Trial(0).train("wild", Teacher(SgdRecipe(1e6), epochs=1, samples=64, width=8, depth=1))
    assert result.final == float("inf")
    assert result.arm.diverged
