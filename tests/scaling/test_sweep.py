"""Families that are trained at several sizes: what is counted, what is fitted, and what the command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app
from polyrhythm.tools.scaling.scaling_page import law_rows, scaling_sentences, write_scaling_page
from polyrhythm.tools.scaling.sweep import SAMPLES, ScalingPoint, ScalingSweep, report_of, sweep
from report.page_laws import empty_tables, fixed_colours

JOB = """
import torch

x = torch.linspace(-1, 1, 32).view(-1, 1)

def train(worker, width: int = 4, lr=0.1):
    model = torch.nn.Sequential(torch.nn.Linear(1, width, bias=False), torch.nn.Linear(width, 1, bias=False))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    for a, b in worker.batches((x, 2 * x), batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    worker.report(loss=1.0 / width**0.5 + 0.001 * worker.seed)
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "job.py").write_text(JOB)
    return str(tmp_path / "job.py")


def call(*arguments: object) -> Any:
    return CliRunner(env={"COLUMNS": None}).invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def points(exponents: dict[str, float], seeds: int = 3) -> list[ScalingPoint]:
    return [
        ScalingPoint(family, str(size), seed, size, 10.0 * size, 4 * size**-alpha * (1 + 0.001 * seed), 1e6 / size)
        for family, alpha in exponents.items()
        for size in (100, 400, 1600, 6400)
        for seed in range(seeds)
    ]


def test_parameters_and_operations_of_each_training_are_counted(job: str) -> None:
    report = sweep(ScalingSweep({job: ("width", (2, 4, 8))}, seeds=(0, 1)))
    assert [point.parameters for point in report.points] == [4, 4, 8, 8, 16, 16]
    small, large = (next(point.operations for point in report.points if point.size == size) for size in ("2", "8"))
    assert large == pytest.approx(4 * small, rel=0.05)
    law = report.laws[0]
    assert law.alpha == pytest.approx(0.5, abs=0.01)
    assert law.holds


def test_families_are_told_apart_by_their_intervals_alone() -> None:
    wanted = ScalingSweep({"a": ("w", ()), "b": ("w", ()), "c": ("w", ())})
    report = report_of(points({"a": 0.1, "b": 0.3, "c": 0.3}), "loss", wanted)
    apart = {(pair.first, pair.second): pair.told_apart for pair in report.pairs if pair.against == "parameters"}
    assert apart == {("a", "b"): True, ("a", "c"): True, ("b", "c"): False}
    said = scaling_sentences(report)
    assert "a and b: the exponents of loss against parameters are told apart: their intervals are disjoint." in said
    assert "b and c: the exponents of loss against parameters are not told apart: their intervals overlap." in said


def test_samples_to_a_target_are_fitted_where_all_sizes_reach_it() -> None:
    from polyrhythm.core.records.metrics import parse_target

    wanted = ScalingSweep({"a": ("w", ())}, target=parse_target("loss=1"))
    whole = points({"a": 0.2})
    laws = {(law.quantity, law.against): law for law in report_of(whole, "loss", wanted).laws}
    assert laws[SAMPLES, "parameters"].alpha == pytest.approx(1.0)
    late = [ScalingPoint("a", "50", 0, 50, 1.0, 9.0), *whole]
    missing = next(law for law in report_of(late, "loss", wanted).laws if law.quantity == SAMPLES)
    assert missing.why_not == "size 50 did not reach the target with seed 0"
    assert missing.alpha is None


def test_a_line_that_does_not_fit_is_not_called_a_power_law(tmp_path: Path) -> None:
    bad = [ScalingPoint("a", str(n), 0, n, float(n), value) for n, value in ((1, 1.0), (2, 3.0), (4, 0.5), (8, 2.0))]
    report = report_of(bad, "loss", ScalingSweep({"a": ("w", ())}))
    assert all(row[-1].startswith("no: R² is below 0.9") for row in law_rows(report))
    page = write_scaling_page(report, tmp_path / "page.html", "polyrhythm scaling a").read_text()
    assert "no: R²" in page
    assert fixed_colours(page) == set()
    assert empty_tables(page) == []


def test_the_command_prints_laws_and_writes_a_report(job: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call("scaling", job, "--sizes", "width=2,4,8", "--seeds", "0,1", "--out", out, "--quiet")
    assert done.exit_code == 0, done.stderr
    assert "is it a power law" in done.stdout
    report = json.loads((out / "report.json").read_text())
    assert len(report["points"]) == 6
    again = call("scaling", job, "--sizes", "width=2,4,8", "--seeds", "0,1", "--json")
    assert json.loads(again.stdout) == report
    assert "polyrhythm scaling" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sizes", "width=2,4"], "2 sizes"),
        (["--sizes", "width"], "names no setting"),
        (["--sizes", "widht=1,2,3"], "widht"),
        (["--sizes", "width=1,2,3", "--metric", "perplexity"], "perplexity"),
        (["--sizes", "width=1,2,3", "--seeds", "x"], "x"),
    ],
)
def test_what_cannot_be_fitted_is_refused(job: str, options: list[str], words: str) -> None:
    done = call("scaling", job, *options)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_job_without_sizes_is_refused(job: str) -> None:
    done = call("scaling", job, "xor", "--sizes", f"{job}.width=1,2,3")
    assert done.exit_code == 2
    assert "xor has no sizes" in done.stderr
