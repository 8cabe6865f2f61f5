"""`polyrhythm validate`: reports of others are held against the same rules, each refused for its own reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crafted import claim, report
from test_rules import BROKEN

from polyrhythm_reproductions.outside import broken_by, schema
from polyrhythm_reproductions.rules import RULES

DOCS = Path(__file__).parents[2] / "docs"


def written(folder: Path, report: Any, **changes: Any) -> Path:
    """The report as another's JSON, without what a report may lack; None takes a key away."""
    data = msgspec.to_builtins(report)
    for each in data["arms"]:
        if each["final"] != each["final"]:
            each["final"] = "nan"
    for optional in ("systems", "notes", "machines"):
        if not data[optional]:
            del data[optional]
    data = {key: value for key, value in (data | changes).items() if value is not None}
    file = folder / "report.json"
    file.write_text(json.dumps(data))
    return file


def test_a_good_report_of_others_is_accepted(tmp_path: Path) -> None:
    assert broken_by(written(tmp_path, report())) == []


def test_the_report_on_the_page_is_accepted_and_keeps_the_schema(tmp_path: Path) -> None:
    text = (DOCS / "honest-reports.md").read_text()
    file = tmp_path / "report.json"
    file.write_text(text.split("```json\n")[1].split("```")[0])
    assert broken_by(file) == []


@pytest.mark.parametrize("number", BROKEN)
def test_a_bad_report_of_others_is_refused_for_its_own_reason(tmp_path: Path, number: int) -> None:
    said = broken_by(written(tmp_path, BROKEN[number]))
    assert said
    assert all(each.startswith(f"rule {number} (") for each in said)


@pytest.mark.parametrize(
    ("field", "number"), [("stop", 10), ("tuning_runs", 3), ("baseline", 12), ("scaling", 11), ("seeds", 13), ("verdict", 15)]
)
def test_a_report_without_what_a_rule_looks_at_is_refused_by_that_rule(tmp_path: Path, field: str, number: int) -> None:
    (said,) = broken_by(written(tmp_path, report(), **{field: None}))
    assert said.startswith(f"rule {number} (")
    assert f"has no {field}" in said


def test_an_arm_without_what_a_rule_looks_at_is_refused_by_that_rule(tmp_path: Path) -> None:
    arms = msgspec.to_builtins(report().arms)
    del arms[3]["dataset"]
    (said,) = broken_by(written(tmp_path, report(), arms=arms))
    assert said.startswith("rule 9 (inputs that are too large): arms[")


def test_the_short_words_of_efficiency_are_accepted(tmp_path: Path) -> None:
    assert broken_by(written(tmp_path, report(claims=[claim(efficiency="system")]))) == []


def test_a_median_that_is_not_that_of_the_values_is_refused(tmp_path: Path) -> None:
    (said,) = broken_by(written(tmp_path, report(claims=[claim(median=2.1)])))
    assert said.startswith("rule 15")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scaling": "both"}, "write one of 'weak'"),
        ({"arms": 3}, "does not have the schema"),
        ({"seeds": ["a"]}, "does not have the schema"),
    ],
)
def test_what_is_no_report_is_refused_in_one_sentence(polyrhythm: Any, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    done = polyrhythm("validate", written(tmp_path, report(), **changes))
    assert done.code == 2
    assert words in done.err


def test_the_command_names_the_rules_and_fails(polyrhythm: Any, tmp_path: Path) -> None:
    good = DOCS / "reproductions" / "d2l.json"
    done = polyrhythm("validate", good, written(tmp_path, BROKEN[7]))
    assert done.code == 1
    assert f"{good}: accepted" in done.out
    assert "rule 7 (units without meaning)" in done.out
    assert json.loads(polyrhythm("validate", good, "--json").out) == [{"report": str(good), "accepted": True, "problems": []}]


def test_the_published_schema_is_that_of_the_command(polyrhythm: Any) -> None:
    assert json.loads((DOCS / "report.schema.json").read_text()) == schema()
    assert json.loads(polyrhythm("validate", "--schema").out) == schema()
    assert polyrhythm("validate").code == 2


def test_every_rule_about_figures_is_told_apart_by_a_field_or_a_report() -> None:
    assert {rule.number for rule in RULES} == set(BROKEN)
