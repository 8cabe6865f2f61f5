"""`polyrhythm compare`: several systems on one JOB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FRAGILE = """
import math, torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for a, b in worker.batches((x, x), batch_size=4):
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    worker.report(loss=math.nan if worker.workers > 1 else 0.5)
"""


def test_systems_are_put_beside_one_another(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("compare", tiny, "--systems", "allreduce,ssp,single", "--on", "simulator", "--to", "loss=100")
    assert (told.code, told.err) == (0, "")
    assert all(name in told.out for name in ("allreduce", "ssp", "single", "to loss 100"))


def test_json_has_the_job_the_target_and_the_runs_in_order(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("compare", tiny, "--systems", "ssp, allreduce", "--on", "simulator", "--to", "loss=0.5", "--json")
    compared = json.loads(told.out)
    assert list(compared) == ["job", "target", "runs", "seeds", "settings", "tuning", "command"]
    assert compared["job"] == str(tiny)
    assert compared["target"] == {"metric": "loss", "value": 0.5, "higher": None}
    assert [run["system"] for run in compared["runs"]] == ["ssp", "allreduce"]


def test_the_same_arguments_give_the_same_bytes_in_another_process(program: Any, polyrhythm: Any, tiny: Path) -> None:
    arguments = ("compare", tiny, "--systems", "all", "--on", "simulator", "--workers", 4, "--network", "wan-3", "--seed", 7, "--json")
    first, second = program(*arguments), polyrhythm(*arguments)
    assert first.code == 0, first.err
    assert first.out == second.out
    assert first.out.count("\n") == 1
    assert all(run["seconds"] is None for run in json.loads(first.out)["runs"])


def test_a_system_that_fails_gets_a_row_and_the_others_go_on(polyrhythm: Any, job: Any) -> None:
    path = job(FRAGILE)
    told = polyrhythm("compare", path, "--systems", "allreduce,single", "--on", "simulator", "--json")
    assert told.code == 0
    failed, ended = json.loads(told.out)["runs"]
    assert "loss" in failed["error"]
    assert failed["steps"] > 0
    assert ended["error"] is None
    assert told.err.startswith("polyrhythm: allreduce: ")
    assert "Traceback" not in told.err
    shown = polyrhythm("compare", path, "--systems", "allreduce,single", "--on", "simulator")
    assert shown.code == 0
    assert "allreduce failed" in shown.out


def test_when_all_fail_the_exit_code_says_so(polyrhythm: Any, job: Any) -> None:
    assert polyrhythm("compare", job(FRAGILE), "--systems", "allreduce,ssp", "--on", "simulator").code == 1


def test_out_keeps_every_run_the_comparison_and_the_page(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    told = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--out", out, "--json")
    assert told.code == 0
    assert {path.name for path in out.iterdir()} == {"allreduce", "ssp", "compare.json", "report.html"}
    assert json.loads((out / "compare.json").read_text()) == json.loads(told.out)
    assert "allreduce" in (out / "report.html").read_text()


def test_options_go_to_the_systems_that_have_them(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--option", "slack=1", "--json")
    assert told.code == 0
    refused = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--option", "slak=1", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "Did you mean 'slack'" in refused.err


def test_a_target_that_is_none_is_refused(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("compare", tiny, "--to", "accuracy")
    assert (told.code, told.out) == (2, "")
    assert "accuracy=0.96" in told.err


def test_a_target_that_nobody_reports_is_refused_after_the_first_run(polyrhythm: Any, tiny: Path) -> None:
    told = polyrhythm("compare", tiny, "--systems", "single,allreduce", "--on", "simulator", "--to", "losss=0.9")
    assert told.code == 2
    assert "No metric that is reported is called 'losss'. Did you mean 'loss'?" in told.err
