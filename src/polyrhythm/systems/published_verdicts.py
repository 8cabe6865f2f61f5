"""The verdicts on papers that were published with this version: of whole runs with at least five seeds each.

`polyrhythm systems` shows them. The file is written by reproductions/generate_verdicts.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

Verdict = Literal["reproduced", "in the median only", "not reproduced", "cannot be tested here"]
REPRODUCED: Verdict = "reproduced"
MEDIAN_ONLY: Verdict = "in the median only"
NOT_REPRODUCED: Verdict = "not reproduced"
UNTESTABLE: Verdict = "cannot be tested here"
FILE = Path(__file__).parent / "verdicts.json"


class PublishedVerdict(msgspec.Struct):
    """The verdict on one reproduction: how many of its claims can be tested here, were reproduced, and were in the median only."""

    reproduction: str
    systems: list[str]
    verdict: Verdict
    reproduced: int
    median_only: int
    testable: int
    untestable: int
    seeds: int


@cache
def verdicts() -> list[PublishedVerdict]:
    """All that were published."""
    return msgspec.json.decode(FILE.read_bytes(), type=list[PublishedVerdict])


def verdict_on(system: str) -> str:
    """The verdicts on the claims made for a published system, in words; "not tested yet" where there are none."""
    found = [each for each in verdicts() if system in each.systems]
    if not found:
        return "not tested yet"
    return "; ".join(shown(each) for each in found)


def shown(verdict: PublishedVerdict) -> str:
    """A verdict with its counts: "reproduced (3 of 3 claims)", "not reproduced (1 of 3 claims reproduced, 1 in the median only)"."""
    if not verdict.testable:
        return verdict.verdict
    rest = f", {verdict.median_only} in the median only" if verdict.median_only else ""
    rest += f"; {verdict.untestable} cannot be tested here" if verdict.untestable else ""
    each = "claims" if verdict.reproduced == verdict.testable else "claims reproduced"
    return f"{verdict.verdict} ({verdict.reproduced} of {verdict.testable} {each}{rest})"
