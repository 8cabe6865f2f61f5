"""`--shares` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_workers_take_their_shares_of_each_step(polyrhythm: Any, tiny: Path) -> None:
    alike, shared = (
        json.loads(polyrhythm("run", tiny, "--workers", 2, "--network", "lan", *shares, "--json").out)
        for shares in ((), ("--shares", "3,1"))
    )
    assert shared["samples"] == alike["samples"]
    assert shared["final"]["loss"] != alike["final"]["loss"]


def test_a_comparison_takes_shares_for_all_its_systems(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "allreduce,tree", "--workers", 2, "--network", "lan", "--shares", "3,1", "--json")
    assert result.code == 0, result.err
    assert {run["summary"]["samples"] if "summary" in run else run["samples"] for run in json.loads(result.out)["runs"]} == {128}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--shares", "3,1", "--system", "easgd"), "unequal batches"),
        (("--shares", "3,2,1"), "--shares 3,2,1 are 3, and there are 2 workers"),
        (("--shares", "3,a"), "--shares 3,a: write a number"),
        (("--shares", "3,0"), "not positive"),
    ],
)
def test_shares_that_cannot_be_are_refused(polyrhythm: Any, tiny: Path, arguments: tuple[str, ...], words: str) -> None:
    result = polyrhythm("run", tiny, "--workers", 2, *arguments)
    assert result.code == 2
    assert words in result.err
