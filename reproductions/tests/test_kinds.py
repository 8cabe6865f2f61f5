"""A claim can fail: what it asserts decides its bounds, and no verdict holds for both orders of the arms."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from crafted import claim, report

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.findings import NOT_REPRODUCED, REPRODUCED, Finding, verdict_on
from polyrhythm_reproductions.kept import kept
from polyrhythm_reproductions.protocol import Claim, ClaimKind, swapped, without_effect
from polyrhythm_reproductions.registry import REPRODUCTIONS
from polyrhythm_reproductions.rules import problems

DOCS = Path(__file__).parents[2] / "docs"
CLAIMS = [(each.name, claim) for each in REPRODUCTIONS.values() for claim in each.testable]
FINDINGS = [(each.name, claim) for each in kept(DOCS / "reproductions") for claim in each.claims if not claim.why_not]
DIRECTED = re.compile(r"\b(helps?|faster|fewer|sooner|better|improves?|hurts?|should|outperforms?|beats?|exceeds?)\b")
TIMES = re.compile(r"(?<!up to )(?<![\d.])(\d[\d.,]*)(?: to \d[\d.,]*)? times (?:fewer|less|as fast|faster|sooner|smaller)\b")


def unquoted(text: str) -> str:
    """Without what stands in parentheses, which is the paper's figure and not the claim."""
    return re.sub(r"\([^)]*\)", "", text)


@pytest.mark.parametrize("bounds", [{"most": 1.02}, {"least": 1.0}, {"least": 0.9, "most": 3.0}])
def test_an_effect_whose_bounds_admit_none_is_refused_with_what_to_do(bounds: dict[str, float]) -> None:
    with pytest.raises(CompositionError, match=r"no effect at all, a 'loss' of 1: give bounds without it, or say kind=ClaimKind\.NO_WORSE"):
        Claim(paper="It helps.", ours="loss over that without", figure="loss", unit="ratio", **bounds)


def test_no_difference_must_be_within_the_margin_of_what_is_no_worse() -> None:
    with pytest.raises(CompositionError, match="bounds leave out 0"):
        Claim(paper="It is as good.", ours="points lost", figure="lost", unit="points", most=-1.0, kind=ClaimKind.NO_WORSE)


def test_arms_that_change_places_invert_ratios_and_negate_differences() -> None:
    assert swapped(4.0, "x") == 0.25
    assert swapped(0.0, "ratio") == float("inf")
    assert swapped(4.0, "points") == -4.0
    assert all(swapped(without_effect(unit), unit) == without_effect(unit) for unit in ("ratio", "x", "points", "%", "nats"))


def either_way(finding: Finding) -> bool:
    """Whether the verdict on an effect would stay if its arms changed places."""
    other = verdict_on([swapped(value, finding.unit) for value in finding.values], finding.least, finding.most)
    return finding.kind == ClaimKind.EFFECT.value and NOT_REPRODUCED not in (finding.verdict, other)


def test_no_verdict_on_an_effect_holds_where_the_arms_change_places() -> None:
    assert [(name, each.figure) for name, each in FINDINGS if either_way(each)] == []


def test_equal_arms_reproduce_no_effect_and_everything_that_is_to_be_no_worse() -> None:
    for name, each in FINDINGS:
        verdict = verdict_on([without_effect(each.unit)] * 5, each.least, each.most)
        if each.kind != ClaimKind.VALUE.value:
            assert verdict == (NOT_REPRODUCED if each.kind == ClaimKind.EFFECT.value else REPRODUCED), (name, each.figure)


def test_every_seed_of_what_is_reproduced_is_within_the_bounds() -> None:
    for name, each in FINDINGS:
        alone = [verdict_on([value], each.least, each.most) for value in each.values]
        assert (each.verdict == REPRODUCED) == (set(alone) == {REPRODUCED}), (name, each.figure)


@pytest.mark.parametrize(
    ("name", "figure"),
    [("fedavg", "proximal"), ("fedavg", "adaptive"), ("fedavg", "fewer rounds"), ("fedbuff", "discount"), ("pipe-sgd", "cold")],
)
def test_what_its_own_numbers_contradict_is_not_reproduced(name: str, figure: str) -> None:
    [found] = [each for reproduction, each in FINDINGS if (reproduction, each.figure) == (name, figure)]
    assert found.verdict == NOT_REPRODUCED
    assert "because" in found.changed


def test_what_is_no_worse_is_not_reported_as_an_advantage() -> None:
    directed = [(name, each.paper) for name, each in CLAIMS if each.kind is ClaimKind.NO_WORSE and DIRECTED.search(unquoted(each.paper))]
    assert directed == []


def test_bounds_require_as_many_times_as_the_claim_states() -> None:
    for name, each in CLAIMS:
        for times in TIMES.findall(unquoted(each.paper)):
            number = float(times.replace(",", "").rstrip("."))
            assert each.least >= 0.9 * number or each.least <= number <= each.most < float("inf"), (name, each.paper)


def test_what_was_changed_after_a_run_is_in_the_column_of_what_was_wanted() -> None:
    changed = [(name, each) for name, each in CLAIMS if each.changed]
    assert {("rudra", "divided"), ("rudra", "not divided"), ("fedavg", "proximal")} <= {(name, each.figure) for name, each in changed}
    for name, each in changed:
        assert f"*Changed after a run: {each.changed}.*" in (DOCS / "reproductions" / f"{name}.md").read_text()


def test_a_report_whose_claim_cannot_fail_is_refused() -> None:
    effect = claim(least=None, most=1.02, unit="ratio", values=[1.01] * 5, median=1.01, low=1.01, high=1.01)
    assert "its bounds admit 1, which is none" in problems(report(claims=[effect]))[0]
    both = msgspec.structs.replace(effect, kind=ClaimKind.NO_WORSE.value)
    assert problems(report(claims=[both])) == []
