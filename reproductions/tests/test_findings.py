"""Claims, bounds, intervals and verdicts."""

from __future__ import annotations

import math

import pytest

from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.report.estimates import median_interval
from polyrhythm_reproductions.findings import judge, verdict_of
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction
from polyrhythm_reproductions.registry import REPRODUCTIONS, find
from polyrhythm_reproductions.trial import ArmTrial

HALF = Claim(paper="It loses little.", ours="points lost", figure="lost", unit="points", most=1.0, kind=ClaimKind.NO_WORSE)


def nothing(trial: ArmTrial) -> Figures:
    return {}


def of(*claims: Claim) -> Reproduction:
    return Reproduction(name="toy", systems=(), paper="A paper (2020)", setting="A job.", claims=claims, measure=nothing)


def test_a_claim_is_reproduced_if_every_seed_is_within_its_bounds_and_in_the_median_only_if_the_median_is() -> None:
    [finding] = judge(of(HALF), [{"lost": value} for value in (0.2, 0.95, 0.9)])
    assert (finding.verdict, finding.median, finding.low, finding.high) == ("reproduced", 0.9, 0.2, 0.95)
    [finding] = judge(of(HALF), [{"lost": value} for value in (0.2, 5.0, 0.9)])
    assert (finding.verdict, finding.median, finding.low, finding.high) == ("in the median only", 0.9, 0.2, 5.0)
    [finding] = judge(of(HALF), [{"lost": value} for value in (0.2, 5.0, 1.1)])
    assert finding.verdict == "not reproduced"


def test_what_is_not_a_number_reproduces_nothing() -> None:
    [finding] = judge(of(HALF), [{"lost": 0.1}, {"lost": math.nan}])
    assert finding.verdict == "not reproduced"
    assert finding.median is None


def test_a_claim_that_cannot_be_tested_counts_for_nothing() -> None:
    machine = Claim(paper="It runs on 128 GPUs.", untestable="There is no GPU.")
    findings = judge(of(HALF, machine), [{"lost": 0.0}])
    assert [finding.verdict for finding in findings] == ["reproduced", "cannot be tested here"]
    assert verdict_of(findings) == "reproduced"
    assert verdict_of(findings[1:]) == "cannot be tested here"


def test_one_claim_that_is_not_reproduced_decides() -> None:
    whole, median, none = (judge(of(HALF), [{"lost": value} for value in values]) for values in ([0.0] * 3, [0.0, 0.0, 3.0], [3.0] * 3))
    assert verdict_of(whole + median) == "in the median only"
    assert verdict_of(whole + median + none) == "not reproduced"


def test_the_interval_is_the_range_of_few_values_and_narrower_than_that_of_many() -> None:
    assert median_interval([3.0, 1.0]) == (1.0, 3.0)
    values = [float(k) for k in range(40)]
    low, high = median_interval(values)
    assert 0 < low < 19.5 < high < 39
    assert median_interval(values) == (low, high)


@pytest.mark.parametrize(
    "wrong",
    [{"figure": "x", "ours": "x", "unit": "x"}, {"most": 1.0}, {"figure": "x", "most": 1.0}],
)
def test_a_claim_that_anything_would_reproduce_or_that_is_empty_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CompositionError):
        Claim(paper="It is good.", **wrong)  # type: ignore[arg-type]


def test_a_reproduction_is_found_by_its_name_and_by_its_systems() -> None:
    assert find("onebit").name == "onebit"
    with pytest.raises(UnknownNameError, match="Did you mean 'onebit'"):
        find("one-bit")
    with pytest.raises(CompositionError, match="hybrid-groups has no experiment of its own"):
        find("hybrid-groups")


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_reproductions_name_systems_that_exist_and_papers_with_a_year(name: str) -> None:
    reproduction = REPRODUCTIONS[name]
    assert set(reproduction.systems) <= set(SYSTEMS)
    assert any(part.strip("():,.;")[:4].isdigit() for part in reproduction.paper.split())
    assert reproduction.claims
    figures = [claim.figure for claim in reproduction.testable]
    assert len(set(figures)) == len(figures)
