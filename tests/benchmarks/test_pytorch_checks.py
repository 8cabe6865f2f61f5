"""The comparison of torch's own tests, put together from parts of it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield importlib.import_module("pytorch_checks")
    for name in ("pytorch_checks", "ranks_of_torch_tests"):
        sys.modules.pop(name, None)


def call(checks: Any, monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    monkeypatch.setattr(sys, "argv", ["pytorch_checks.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        checks.main()
    return int(ended.value.code or 0)


PASSES, FAILS = ["passes", ""], ["fails", "no such group"]
HERE, THERE = "distributed_test::Checks.test_sum", "tensor/test_math.py::Maths.test_sum"
PARTS = [
    {"gloo": {HERE: FAILS, THERE: PASSES}},
    {"gloo": {HERE: PASSES}, "polyrhythm": {HERE: PASSES, THERE: FAILS}},
    {"virtual time": {HERE: PASSES, THERE: PASSES}},
]


def test_parts_of_the_comparison_are_put_together_and_the_last_outcome_counts(
    checks: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.json" for number in range(len(PARTS))]
    for file, part in zip(files, PARTS, strict=True):
        file.write_text(json.dumps(part))
    page = tmp_path / "page.md"
    assert call(checks, monkeypatch, "--merge", *files, "--write", page) == 1, "one is not explained"
    text = page.read_text()
    assert "pytorch_checks.py --tests DIR --write" in text
    assert "| c10d | 1 | 1 | 1 | 0 | 0 |" in text
    assert "| DTensor | 1 | 0 | 1 | 0 | 0 |" in text
    assert f"- `{THERE}`: not explained" in text
    assert text.count(f"`{HERE}`") == 1


def test_parts_that_lack_a_way_are_refused(
    checks: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "part.json"
    file.write_text(json.dumps(PARTS[0]))
    assert call(checks, monkeypatch, "--merge", file) == 2
    assert "have no outcomes of polyrhythm and virtual time: give the files of all three ways" in capsys.readouterr().err
    assert call(checks, monkeypatch, "--merge", file, "--way", "gloo") == 2
