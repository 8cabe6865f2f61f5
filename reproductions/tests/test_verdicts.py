"""The table of verdicts, and what the package carries of it, agree with the findings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from polyrhythm.systems.published_verdicts import FILE
from polyrhythm_reproductions.findings import renewed
from polyrhythm_reproductions.kept import kept
from polyrhythm_reproductions.page import page
from polyrhythm_reproductions.registry import REPRODUCTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_verdicts_are_those_of_the_findings() -> None:
    spec = importlib.util.spec_from_file_location("generate_verdicts", DOCS.parent / "reproductions" / "generate_verdicts.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    findings = kept(DOCS / "reproductions")
    assert not any(each.quick for each in findings)
    assert (DOCS / "reproductions" / "index.md").read_text() == module.text(findings), "run python reproductions/generate_verdicts.py"
    assert FILE.read_bytes() == module.verdicts(findings), "run python reproductions/generate_verdicts.py"


def test_every_page_is_that_of_its_findings_and_these_have_the_bounds_of_today() -> None:
    for findings in kept(DOCS / "reproductions"):
        assert renewed(findings, REPRODUCTIONS[findings.name]) == findings, "run python reproductions/generate_verdicts.py"
        assert (DOCS / "reproductions" / f"{findings.name}.md").read_text() == page(findings)
