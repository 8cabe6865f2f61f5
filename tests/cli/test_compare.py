"""`polyrhythm compare`: several systems on one JOB."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.cli.compare import exit_code
from polyrhythm.tools.cli.comparison import ComparisonResult
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.prepare import Jobs
from polyrhythm.tools.cli.record import ComparisonRecord
from polyrhythm.tools.cli.request import ComparisonOptions, requested
from polyrhythm.tools.cli.variants import together, variants

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


def test_systems_are_put_next_to_each_other(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "allreduce,ssp,single", "--on", "simulator", "--to", "loss=100")
    assert result.code == 0
    assert result.err == (
        "polyrhythm: what is run prints (each line once, whatever its numbers; a run alone shows all):\n  the user prints 2\n"
    )
    assert all(name in result.out for name in ("allreduce", "ssp", "single", "to loss 100"))


def test_json_has_the_job_the_target_and_the_runs_in_order(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "ssp, allreduce", "--on", "simulator", "--to", "loss=0.5", "--json")
    compared = json.loads(result.out)
    assert list(compared) == ["job", "target", "runs", "seeds", "settings", "tuning", "command", "places"]
    assert compared["job"] == str(tiny)
    assert compared["target"] == {"metric": "loss", "value": 0.5, "higher": None}
    assert [run["system"] for run in compared["runs"]] == ["ssp", "allreduce"]


def test_fast_computes_gradients_side_by_side_in_virtual_time_and_the_records_say_so(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "ssp", "--on", "simulator", "--fast", "--out", tmp_path / "runs", "--json")
    assert result.code == 0, result.err
    assert "--fast" in json.loads(result.out)["command"]
    written = "".join(path.read_text() for path in sorted((tmp_path / "runs").rglob("*.json")))
    assert "side by side" in written
    refused = polyrhythm("compare", tiny, "--systems", "ssp", "--on", "processes", "--fast")
    assert "--fast is for virtual time, and the run is on processes" in refused.err


@pytest.mark.long
def test_the_same_arguments_give_the_same_bytes_in_another_process(program: Any, polyrhythm: Any, tiny: Path) -> None:
    some = "allreduce,ssp,gossipgrad,onebit,diloco,gaia,streaming-diloco"
    arguments = ("compare", tiny, "--systems", some, "--on", "simulator", "--workers", 4, "--network", "wan-3", "--seed", 7, "--json")
    first, second = program(*arguments), polyrhythm(*arguments)
    assert first.code == 0, first.err
    assert first.out == second.out
    assert first.out.count("\n") == 1
    assert all(run["seconds"] is None for run in json.loads(first.out)["runs"])


def test_all_leaves_out_systems_that_share_memory_where_workers_are_at_several_sites() -> None:
    for network, left_out in (("wan-3", {"hogwild", "elephas-hogwild", "buckwild"}), ("lan", set())):
        given = variants("digits-cnn", None, [4], RuntimeOptions(network=network))
        request = requested(
            Jobs(),
            given,
            together(given, RuntimeOptions(network=network)),
            ComparisonOptions("all", None, None, None, (), (), (), None, None, 1, "host"),
        )
        assert set(request.strategies) == set(SYSTEMS) - left_out


def test_a_system_that_fails_gets_a_row_and_the_others_go_on(polyrhythm: Any, job: Any) -> None:
    path = job(FRAGILE)
    result = polyrhythm("compare", path, "--systems", "allreduce,single", "--on", "simulator", "--json")
    assert result.code == 1
    failed, ended = json.loads(result.out)["runs"]
    assert "loss" in failed["error"]
    assert failed["steps"] > 0
    assert ended["error"] is None
    assert result.err.startswith("polyrhythm: allreduce: ")
    assert "Traceback" not in result.err
    shown = polyrhythm("compare", path, "--systems", "allreduce,single", "--on", "simulator")
    assert shown.code == 1
    assert "allreduce failed" in shown.out


def outcome(error: str | None = None, remarks: list[str] | None = None) -> Outcome:
    return Outcome(Summary("ssp", 2, "simulator", "slow", 0, error=error), remarks=remarks or [])


@pytest.mark.parametrize(
    ("outcomes", "tried", "kept", "code"),
    [
        ([outcome(), outcome()], [], True, 0),
        ([outcome(), outcome()], [outcome("The loss is not a number."), outcome()], True, 0),
        ([outcome(), outcome("worker/1 failed")], [], True, 1),
        ([outcome("worker/1 failed")], [], True, 1),
        ([outcome(remarks=["The record is incomplete."])], [], True, 1),
        ([outcome()], [outcome(remarks=["The record is incomplete."])], True, 1),
        ([outcome()], [], False, 1),
    ],
)
def test_the_exit_code_is_1_where_any_run_failed_or_any_record_is_not_whole(
    outcomes: list[Outcome], tried: list[Outcome], kept: bool, code: int
) -> None:
    held = ComparisonResult(ComparisonRecord("job.py", None, [each.summary for each in outcomes]), outcomes, tried)
    assert exit_code(held, kept) == code


def test_out_keeps_every_run_the_comparison_and_the_page(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    result = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--out", out, "--json")
    assert result.code == 0
    assert {path.name for path in out.iterdir()} == {"allreduce", "ssp", "compare.json", "report.html"}
    assert json.loads((out / "compare.json").read_text()) == json.loads(result.out)
    assert "allreduce" in (out / "report.html").read_text()


def test_options_go_to_the_systems_that_have_them(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--option", "ssp.slack=1", "--json")
    assert result.code == 0
    assert shlex.split(json.loads(result.out)["command"])[-2:] == ["--option", "ssp.slack=1"]
    refused = polyrhythm("compare", tiny, "--systems", "allreduce,ssp", "--on", "simulator", "--option", "slak=1", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "Did you mean 'slack'" in refused.err


def test_a_target_that_is_none_is_refused(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("compare", tiny, "--to", "accuracy")
    assert (result.code, result.out) == (2, "")
    assert "accuracy=0.96" in result.err


def test_a_target_that_no_run_reports_is_refused_after_the_first_run_and_when_all_are_there(
    polyrhythm: Any, tiny: Path, tmp_path: Path
) -> None:
    words = ("compare", tiny, "--systems", "single,allreduce", "--on", "simulator", "--out", tmp_path / "kept", "--to")
    for target, code in (("losss=0.9", 2), ("losss=0.9", 2), ("loss=0.9", 0), ("losss=0.9", 2)):
        result = polyrhythm(*words, target)
        assert result.code == code
        assert ("No metric that is reported is called 'losss'. Did you mean 'loss'?" in result.err) == (code == 2)
