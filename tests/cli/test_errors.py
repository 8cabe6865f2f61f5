"""A user's mistake is reported with one sentence, and never with a traceback of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TRAINING = """
import torch

x = torch.linspace(-1, 1, {samples}).view(-1, 1)

def train(worker):
    model = {model}
    optimizer = torch.optim.SGD({parameters}, lr=0.01)
    model, optimizer = worker.attach(model, optimizer)
    for a, b in worker.batches((x, x), batch_size=4):
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
    worker.report(loss={loss})
"""
FILLED = {"samples": "64", "model": "torch.nn.Linear(1, 1)", "parameters": "model.parameters()", "loss": "loss.item()"}


def training(**changes: str) -> str:
    """A training function with something wrong in it."""
    return TRAINING.format_map(FILLED | changes)


def check(result: Any, code: int, *words: str) -> None:
    """One sentence with these words on stderr, nothing on stdout."""
    assert result.code == code, result.err
    assert result.err.startswith("polyrhythm: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--system", "alreduce"], ["No system is called 'alreduce'", "Did you mean 'allreduce'"]),
        (["--system", "ssp", "--option", "slak=3"], ["No option of ssp is called 'slak'", "Did you mean 'slack'"]),
        (["--system", "ssp", "--option", "slack"], ["--option was given 'slack'", "epochs=5"]),
        (["--system", "ssp", "--option", "slack=x"], ["slack must be a whole number"]),
        (["--system", "ssp", "--option", "slack=-1"], ["slack"]),
        (["--on", "simulater"], ["No runtime is called 'simulater'", "Did you mean 'simulator'"]),
        (["--on", "simulator", "--network", "wan-12"], ["No network is called 'wan-12'", "Did you mean 'wan-11'"]),
        (["--on", "simulator", "--network", "none.json"], ["The network file 'none.json' cannot be read"]),
        (["--on", "simulator", "--device", "a1000"], ["No device is called 'a1000'", "Did you mean 'a100'"]),
        (["--on", "processes", "--network", "slow"], ["--network slow is for --on simulator"]),
        (["--on", "processes", "--device", "a100"], ["--device a100 is for --on simulator"]),
        (["--device", "cdua"], ["No device is called 'cdua'", "Did you mean 'cuda'"]),
        (["--device", "none.json"], ["The device file 'none.json' cannot be read"]),
        (["--network", "slow", "--timeout", "5"], ["--timeout 5 is for real processes", "--on processes"]),
        (["--on", "processes", "--timeout", "-1"], ["timeout=-1"]),
        (["--on", "simulator", "--set", "epoch=1"], ["'epoch'", "Did you mean 'epochs'"]),
        (["--on", "simulator", "--set", "epochs=soon"], ["epochs must be a whole number"]),
    ],
)
def test_options_that_cannot_be_are_refused_with_a_remedy(polyrhythm: Any, tiny: Path, arguments: list[str], words: list[str]) -> None:
    check(polyrhythm("run", tiny, *arguments), 2, *words)
    check(polyrhythm("run", tiny, *arguments, "--json"), 2, *words)


def test_a_gpu_that_is_not_there_is_not_replaced_in_silence(polyrhythm: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for command in (["run", tiny], ["compare", tiny, "--systems", "allreduce,ssp"]):
        check(polyrhythm(*command, "--device", "cuda"), 2, "CUDA devices", "finds none here", "--device cpu")


def test_a_missing_file_is_reported(polyrhythm: Any, tmp_path: Path) -> None:
    check(polyrhythm("run", tmp_path / "absent.py", "--on", "simulator"), 2, "There is no file", "absent.py")


def test_a_misspelt_workload_is_refused_with_the_nearest(polyrhythm: Any) -> None:
    check(polyrhythm("run", "digits-cn", "--on", "simulator"), 2, "Did you mean 'digits-cnn'")


def test_a_syntax_error_is_shown_with_its_line(polyrhythm: Any, job: Any) -> None:
    check(polyrhythm("run", job("import torch\n\ndef train(worker)\n    pass\n"), "--on", "simulator"), 2, "job.py, line 3", "SyntaxError")


def test_a_file_without_train_is_reported(polyrhythm: Any, job: Any) -> None:
    check(polyrhythm("run", job("def trian(worker):\n    pass\n"), "--on", "simulator"), 2, "defines no train", "'trian'")


def test_a_function_that_never_attaches_is_reported(polyrhythm: Any, job: Any) -> None:
    check(polyrhythm("run", job("def train(worker):\n    pass\n"), "--on", "simulator"), 2, "worker.attach")


def test_a_place_that_cannot_be_written_to_is_reported_before_anything_runs(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check(polyrhythm("run", tiny, "--on", "simulator", "--out", tmp_path / "file" / "below"), 2, "--out", "cannot be written to")


@pytest.mark.parametrize("on", ["simulator", "processes"])
@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({"samples": "2"}, 2, "sample"),
        ({"samples": "0"}, 2, "empty"),
        ({"loss": "float('nan')"}, 1, "loss"),
        ({"model": "torch.nn.ReLU()", "parameters": "[torch.zeros(1, requires_grad=True)]"}, 2, "parameters"),
    ],
)
def test_what_goes_wrong_in_a_run_is_one_sentence(polyrhythm: Any, job: Any, on: str, change: dict[str, str], code: int, word: str) -> None:
    result = polyrhythm("run", job(training(**change)), "--on", on, "--workers", 4)
    check(result, code, word)
    assert result.out == ""


@pytest.mark.parametrize("on", ["simulator", "processes"])
def test_the_users_own_exception_is_shown_with_the_users_own_traceback(polyrhythm: Any, job: Any, on: str) -> None:
    result = polyrhythm("run", job("def train(worker):\n    {}['missing']\n"), "--on", on)
    assert result.code == 1
    assert result.err.splitlines()[0] in {f"polyrhythm: worker/{rank} failed: KeyError: 'missing'" for rank in (0, 1)}
    assert 'job.py", line 2, in train' in result.err
    assert "src/polyrhythm" not in result.err.replace("\\", "/")


def test_a_run_that_failed_still_prints_its_json(polyrhythm: Any, job: Any) -> None:
    result = polyrhythm("run", job(training(loss="float('nan')")), "--on", "simulator", "--json")
    assert result.code == 1
    assert '"error":"' in result.out
    assert result.out.count("\n") == 1
    check(type(result)(result.code, "", result.err), 1, "loss")


def test_a_number_of_workers_that_cannot_be_is_refused_as_other_values_of_options_are(polyrhythm: Any, tiny: Path) -> None:
    refused = polyrhythm("run", tiny, "--workers", "0")
    assert refused.code == 2
    assert "give 1 or more" in refused.err
