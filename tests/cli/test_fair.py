"""`polyrhythm compare` made fair: seeds, one global batch, settings for one system, a grid for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.fairness import parse_seeds
from polyrhythm.tools.cli.record import tuning_place
from polyrhythm.tools.cli.tuning import choices, parse_grid

JOB = """
import torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker, lr=0.1, batch_size=4, decay: float | None = None):
    print("seen", worker.workers, lr, batch_size, decay)
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    for a, b in worker.batches((x, 2 * x), batch_size=batch_size):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        worker.report(loss=loss.item())
"""


@pytest.fixture
def compare(polyrhythm: Any, job: Any) -> Any:
    """Compare in virtual time; the job, the systems and the workers first."""
    path = job(JOB)
    return lambda systems, *words: polyrhythm("compare", path, "--systems", systems, "--on", "simulator", "--workers", 4, *words)


def test_seeds_are_ranges_and_lists() -> None:
    assert parse_seeds("0..4") == [0, 1, 2, 3, 4]
    assert parse_seeds("0, 1,5,1") == [0, 1, 5]
    assert parse_seeds("7,0..2") == [7, 0, 1, 2]
    for wrong in ("", "4..0", "0..", "a", "-1", "0..99999"):
        with pytest.raises(CompositionError, match=r"0\.\.4"):
            parse_seeds(wrong)


def test_each_system_runs_under_each_seed_and_is_one_row(compare: Any, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    result = compare("allreduce,ssp", "--seeds", "0..2", "--out", out, "--to", "loss=0.9")
    assert result.code == 0
    assert result.err.endswith(f"polyrhythm: the report is in {out / 'report.html'}\n")
    assert "By the medians of 3 seeds: " in result.out
    assert ", 3 of 3" in result.out
    record = json.loads((out / "compare.json").read_text())
    assert record["seeds"] == [0, 1, 2]
    assert [(run["system"], run["seed"]) for run in record["runs"]] == [(name, seed) for name in ("allreduce", "ssp") for seed in range(3)]
    assert len({run["weights_sha256"] for run in record["runs"]}) == 6
    assert (out / "ssp" / "seed-2" / "run.json").is_file()


def test_a_comparison_of_seeds_is_drawn_again_from_its_record(compare: Any, polyrhythm: Any, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    compare("allreduce,ssp", "--seeds", "0,5", "--out", out)
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert polyrhythm("report", out).code == 0
    assert (out / "report.html").read_bytes() == page
    assert b"--seeds 0,5" in page


def test_the_global_batch_is_shared_out_among_the_workers_that_a_system_uses(compare: Any) -> None:
    assert "seen 1 0.1 16 None" in compare("single", "--global-batch", 16).err
    assert "seen 4 0.1 4 None" in compare("allreduce", "--global-batch", 16).err
    assert json.loads(compare("single,allreduce", "--global-batch", 16, "--json").out)["settings"] == {
        "single": {"batch_size": "16"},
        "allreduce": {"batch_size": "4"},
    }


def test_settings_of_one_system_count_more_than_those_of_all(compare: Any) -> None:
    settings = json.loads(
        compare("tree,ssp,allreduce", "--set", "ssp.lr=0.02", "--set", "lr=0.05", "--set", "tree.decay=none", "--json").out
    )
    assert settings["settings"] == {"tree": {"lr": "0.05", "decay": "none"}, "ssp": {"lr": "0.02"}, "allreduce": {"lr": "0.05"}}
    assert "seen 4 0.02 4 None" in compare("ssp", "--set", "ssp.lr=0.02", "--set", "lr=0.05").err


def test_every_system_is_tuned_with_the_same_grid_on_a_seed_apart(compare: Any, polyrhythm: Any, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    result = compare(
        "single,ssp", "--tune", "lr=0.0001,0.1", "--tune", "batch_size=4,8", "--seeds", "3,4", "--out", out, "--to", "loss=0.4"
    )
    assert result.code == 0, result.err
    assert "Tuned on seed 1003" in result.out
    assert "did best at an end of the grid" in result.out
    record = json.loads((out / "compare.json").read_text())
    tuning = record["tuning"]
    assert (tuning["seed"], tuning["grid"]) == (1003, {"lr": ["0.0001", "0.1"], "batch_size": ["4", "8"]})
    assert tuning["judged_by"] == "time to loss 0.4"
    assert [each["system"] for each in tuning["tried"]] == ["single"] * 4 + ["ssp"] * 4
    assert {each["run"]["seed"] for each in tuning["tried"]} == {1003}
    best = {each["system"]: each["settings"] for each in tuning["tried"] if each["chosen"]}
    assert best == record["settings"]
    assert {settings["lr"] for settings in best.values()} == {"0.1"}
    assert (out / "tuning" / "ssp" / "batch_size=8,lr=0.1" / "run.json").is_file()
    page = (out / "report.html").read_bytes()
    assert b"Tuned on seed 1003" in page
    assert polyrhythm("report", out, "--out", tmp_path / "again.html").code == 0
    assert (tmp_path / "again.html").read_bytes() == page


def test_a_grid_may_be_made_wider_and_what_was_tried_is_taken(compare: Any, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "kept", "--tune")
    compare("ssp", *words, "lr=0.01,0.1")
    result = compare("ssp", *words, "lr=0.001,0.01,0.1,0.5")
    assert "holds 2 of 4 runs" in result.err
    assert "is run again" not in result.err.partition("2 of 4")[0]
    assert "holds 4 of 4 runs" in compare("ssp", *words, "lr=0.5,0.1,0.01,0.001").err


def test_a_choice_is_kept_by_a_name_that_every_file_system_takes() -> None:
    assert tuning_place("ssp", {"b": "x", "a": "1"}) == "tuning/ssp/a=1,b=x"
    assert tuning_place("ssp", {"file": "../a b:c"}).rpartition("/")[2] == "file=..%2Fa%20b%3Ac"
    assert tuning_place("ssp", {"a": "1,b=2"}) != tuning_place("ssp", {"a": "1", "b": "2"})
    long = {tuning_place("ssp", {"a": "x" * 300 + end}) for end in "12"}
    assert len(long) == 2
    assert max(map(len, long)) < 200


FRAGILE = (
    JOB
    + """
    if lr > 0.04 and worker.workers > 1:
        raise ValueError("too high")
"""
)


def test_a_system_that_no_choice_suits_is_named_and_not_run(polyrhythm: Any, job: Any, tmp_path: Path) -> None:
    words = ("compare", job(FRAGILE), "--systems", "ssp,single", "--network", "slow", "--out", tmp_path / "kept")
    assert polyrhythm(*words, "--set", "lr=0.01").code == 0
    result = polyrhythm(*words, "--tune", "lr=0.05,0.1")
    assert result.code == 1
    assert "polyrhythm: ssp: It was not run, because no choice of --tune ended well: widen the grid." in result.err
    assert "\nsingle did best at an end of the grid" in result.out
    record = json.loads((tmp_path / "kept" / "compare.json").read_text())
    assert [(each["system"], each["chosen"]) for each in record["tuning"]["tried"] if each["chosen"]] == [("single", True)]
    assert ["not run" in (run["error"] or "") for run in record["runs"]] == [True, False]
    page = (tmp_path / "kept" / "report.html").read_bytes()
    assert polyrhythm("report", tmp_path / "kept").code == 0
    assert (tmp_path / "kept" / "report.html").read_bytes() == page


def test_where_nothing_ends_well_nothing_is_chosen(polyrhythm: Any, job: Any) -> None:
    result = polyrhythm("compare", job(JOB.replace("worker.report", "raise ValueError").replace("loss=loss", "loss")),
                      "--systems", "ssp", "--network", "slow", "--tune", "lr=0.1,0.2")  # fmt: skip
    assert result.code == 1
    assert "by nothing, because no run ended well" in result.out
    assert "None" not in result.out.replace("seen 2 0.1 4 None", "").replace("seen 2 0.2 4 None", "")
    assert "end of the grid" not in result.out


@pytest.mark.parametrize(
    ("reported", "message"),
    [("pass", "--tune cannot choose"), ("worker.report(gap=loss.item())", "--to 'gap>=VALUE' or --to 'gap<=VALUE'")],
)
def test_a_job_that_does_not_state_what_is_better_cannot_be_tuned(polyrhythm: Any, job: Any, reported: str, message: str) -> None:
    words = ("--systems", "ssp", "--network", "slow", "--tune", "lr=0.0001,0.1")
    path = job(JOB.replace("worker.report(loss=loss.item())", reported))
    result = polyrhythm("compare", path, *words)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(("target", "best"), [("gap<=0", "0.1"), ("gap>=99", "0.0001")])
def test_where_no_choice_reaches_the_target_the_metric_decides_in_its_direction(polyrhythm: Any, job: Any, target: str, best: str) -> None:
    path = job(JOB.replace("report(loss", "report(gap"))
    result = polyrhythm("compare", path, "--systems", "ssp", "--network", "slow", "--tune", "lr=0.0001,0.1", "--to", target, "--json")
    assert json.loads(result.out)["settings"] == {"ssp": {"lr": best}}


def test_a_grid_is_every_combination() -> None:
    assert choices(parse_grid(["a=1,2", "b=x"])) == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]
    assert choices({}) == [{}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", 1, "--seeds", "0..2"], ["--seed 1 and --seeds 0..2", "leave one"]),
        (["--seeds", "4..0"], ["--seeds was given '4..0'", "0..4"]),
        (["--global-batch", 10], ["--global-batch 10", "4 workers of allreduce", "multiple of 4"]),
        (["--global-batch", 16, "--set", "batch_size=2"], ["batch_size", "leave one"]),
        (["--global-batch", 16, "--tune", "batch_size=2,4"], ["batch_size", "leave one"]),
        (["--set", "sps.lr=1"], ["No system of this comparison is called 'sps'", "'ssp'"]),
        (["--set", "ssp.lrr=1"], ["No setting of", "Did you mean 'lr'"]),
        (["--tune", "lrr=1,2"], ["No setting of", "Did you mean 'lr'"]),
        (["--tune", "lr=0.1,much"], ["lr must be a number"]),
        (["--tune", "lr"], ["--tune was given 'lr'", "lr=0.005"]),
        (["--tune", "ssp.lr=1,2"], ["equal tuning budgets", "tune lr"]),
        (["--tune", "lr=1", "--tune", "lr=2"], ["names lr twice"]),
        (["--tune", "lr=1,2", "--set", "ssp.lr=3"], ["--set and --tune both give lr to ssp"]),
        (["--tune", "lr=1,2", "--tune-seed", 0], ["The tuning seed 0 is also a seed of the comparison"]),
        (["--tune-seed", 5], ["was given without --tune"]),
        (["--jobs", 0], ["--jobs 0"]),
        (["--on", "processes", "--jobs", 2], ["--jobs 2 is for the simulator", "share the cores"]),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_runs(compare: Any, words: list[object], message: list[str]) -> None:
    result = compare("allreduce,ssp", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    for each in message:
        assert each in result.err


def test_a_job_without_a_batch_size_cannot_share_one(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "ssp", "--on", "simulator", "--global-batch", 8)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "has no such setting" in result.err
