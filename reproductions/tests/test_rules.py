"""Each rule refuses a report that breaks it and no other rule; a report that breaks none is accepted."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from crafted import arm, claim, report

from polyrhythm_reproductions.findings import ReproductionReport
from polyrhythm_reproductions.kept import kept
from polyrhythm_reproductions.protocol import Efficiency, Scaling
from polyrhythm_reproductions.rules import RULES, HonestyError, problems, refuse

DOCS = Path(__file__).parents[2] / "docs"
TIMED = [claim(efficiency=Efficiency.REAL.value)]
FEW = claim(values=[1.9, 2.0], median=1.95)

BROKEN: dict[int, ReproductionReport] = {
    1: report(arm("dense", 0), arm("ours", 0, final=float("nan"))),
    2: report(arm("dense", 0), arm("ours", 0, split="training")),
    3: report(tuning_runs={"dense": 1, "ours": 12}),
    4: report(arm("dense", 0, hardware="Simulator('slow')"), arm("ours", 0)),
    5: report(arms=[]),
    6: report(arm("dense", 0), arm("ours", 0, data_wait="")),
    7: report(claims=[claim(unit="TFLOPS")]),
    8: report(arm("dense", 0), arm("ours", 0), arm("ours", 0, config="another")),
    9: report(arm("dense", 0), arm("ours", 0, global_batch=2048)),
    10: report(stop=""),
    11: report(arm("dense", 0), arm("ours", 0, workers=8, batch=8)),
    12: report(baseline="hivemind"),
    13: report(seeds=[0, 1], claims=[FEW]),
    14: report(arm("dense", 0, emulated=False), arm("ours", 0, emulated=False), claims=TIMED),
    15: report(claims=[claim(values=[0.1, 0.2, 0.1, 0.3, 0.1], median=0.1)]),
    16: report(claims=[claim(least=0.5)]),
}


def test_a_report_that_keeps_every_rule_is_accepted() -> None:
    assert problems(report()) == []
    refuse(report())


@pytest.mark.parametrize("number", BROKEN)
def test_a_report_that_breaks_a_rule_is_refused_with_its_name(number: int) -> None:
    rule = next(rule for rule in RULES if rule.number == number)
    found = problems(BROKEN[number])
    assert {message.split(":")[0] for message in found} == {f"rule {number} ({rule.name})"}
    with pytest.raises(HonestyError, match=rule.name):
        refuse(BROKEN[number])


def test_weak_and_strong_scaling_are_what_they_are_called() -> None:
    more = [arm("dense", 0), arm("ours", 0, workers=8, global_batch=128)]
    assert problems(report(*more, scaling=Scaling.WEAK.value)) == []
    assert "strong" in problems(report(*more, scaling=Scaling.STRONG.value))[0]
    fixed = [arm("dense", 0), arm("ours", 0, workers=8, batch=8)]
    assert problems(report(*fixed, scaling=Scaling.STRONG.value)) == []
    assert "weak" in problems(report(*fixed, scaling=Scaling.WEAK.value))[0]


def test_a_quick_report_may_have_few_seeds_and_one_that_only_counts_too() -> None:
    assert problems(report(seeds=[0, 1], claims=[FEW], quick=True)) == []
    assert problems(report(seeds=[0, 1], claims=[msgspec.structs.replace(FEW, efficiency=Efficiency.EXACT.value)])) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (report(claims=[claim(values=[2.0])]), "1 values and 5 seeds"),
        (report(claims=[claim(least=None)]), "no bound"),
        (report(claims=[claim(verdict="not reproduced")], verdict="not reproduced"), "its values say reproduced"),
        (report(claims=[claim(values=[math.nan] * 5)]), "its values say not reproduced"),
        (report(verdict="not reproduced"), "its claims say reproduced"),
    ],
)
def test_a_verdict_is_that_of_the_figures(broken: ReproductionReport, message: str) -> None:
    assert message in problems(broken)[0]


def test_nothing_is_compared_with_a_baseline_that_diverged() -> None:
    lost = arm("dense", 1, diverged=True, final=math.inf)
    assert "diverged with seed 1" in problems(report(arm("dense", 0), lost, arm("ours", 0), arm("ours", 1)))[0]


def test_every_rule_has_a_crafted_report_and_a_line_in_the_documentation() -> None:
    assert sorted(BROKEN) == [rule.number for rule in RULES]
    text = (DOCS / "honest-reports.md").read_text()
    for rule in RULES:
        assert f"| {rule.number} | {rule.name} |" in text


def test_every_published_report_keeps_the_rules() -> None:
    found = {findings.name: problems(findings) for findings in kept(DOCS / "reproductions")}
    assert not any(found.values()), found
