"""`polyrhythm run` in both runtimes."""

from __future__ import annotations

import html
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KEYS = ["system", "workers", "on", "network", "seed", "steps", "samples", "seconds", "virtual_seconds", "bytes_sent", "messages_sent"]
KEYS += ["final", "weights_sha256", "error", "lost", "bytes_between_sites", "row_writes", "lost_writes"]

FOREVER = """
import sys, torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    if worker.rank == 0:
        print("started", file=sys.stderr, flush=True)
    while True:
        for a, b in worker.batches((x, x), batch_size=4):
            torch.nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
"""


def test_a_person_gets_a_table_and_a_sentence(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("run", tiny, "--system", "ssp", "--on", "simulator", "--workers", 3)
    assert (result.code, result.err) == (0, "")
    assert "In virtual time" in result.out
    assert "ssp ended with loss" in result.out
    assert "the user prints 2" in result.out


def test_json_is_one_object_with_the_promised_keys(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("run", tiny, "--system", "ssp", "--on", "simulator", "--network", "slow", "--workers", 3, "--seed", 5, "--json")
    assert result.code == 0
    summary = json.loads(result.out)
    assert list(summary) == KEYS
    assert (summary["system"], summary["workers"], summary["on"], summary["network"]) == ("ssp", 3, "simulator", "slow")
    assert summary["seed"] == 5
    assert summary["seconds"] is None
    assert summary["virtual_seconds"] > 0
    assert "the user prints" in result.err


def test_real_processes_print_one_pure_object_and_end_with_the_weights_of_the_simulator(
    polyrhythm: Any, tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    real, virtual = polyrhythm("run", tiny, "--json"), polyrhythm("run", tiny, "--on", "simulator", "--json")
    assert real.code == 0, real.err
    assert real.out.count("\n") == 1
    printed = capfd.readouterr()
    assert (printed.out, printed.err.count("the user prints")) == ("", 2)
    result = json.loads(real.out)
    assert result["on"] == "processes"
    assert result["virtual_seconds"] is None
    assert result["weights_sha256"] == json.loads(virtual.out)["weights_sha256"]


def test_settings_and_options_are_taken(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm(
        "run", tiny, "--on", "simulator", "--system", "sparknet", "--option", "period=3", "--set", "epochs=4", "--set", "learning_rate=0.2"
    )
    assert "the user prints 4" in result.out
    assert "sparknet" in result.out


def test_a_network_file_is_taken(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "attic.json"
    file.write_text('{"name": "attic", "sites": [{"name": "here", "egress": "1 Mbit/s", "latency": "9 ms"}]}')
    result = polyrhythm("run", tiny, "--on", "simulator", "--network", file, "--json")
    assert json.loads(result.out)["network"] == "attic"


def test_out_keeps_the_run(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept" / "here"
    result = polyrhythm("run", tiny, "--on", "simulator", "--out", out)
    assert (result.code, f"the record of the run is in {out}" in result.err) == (0, True)
    assert {path.name for path in out.iterdir()} == {"run.json", "events.jsonl", "weights.safetensors"}


def test_where_metrics_were_logged_is_said(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    result = polyrhythm("run", tiny, "--on", "simulator", "--log", f"csv:{tmp_path / 'metrics.csv'}")
    assert result.err.splitlines()[-1] == f"polyrhythm: the metrics were logged to csv:{tmp_path / 'metrics.csv'}"


def test_a_resumed_run_reports_from_where(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    command = ("run", tiny, "--on", "simulator", "--set", "epochs=1", "--checkpoint", tmp_path / "steps", "--every", "5", "--resume")
    first, second = polyrhythm(*command), polyrhythm(*command)
    assert (first.code, second.code) == (0, 0)
    assert first.err.splitlines() == [
        f"polyrhythm: {tmp_path / 'steps'} has no checkpoint yet: the run starts from the beginning",
        f"polyrhythm: the newest checkpoint is {tmp_path / 'steps' / 'step-00000005'}; --resume continues from there",
    ]
    assert f"the run continues from {tmp_path / 'steps' / 'step-00000005'}; bytes" in second.err


@pytest.mark.parametrize("kept", [False, True])
def test_after_the_loss_of_a_worker_it_is_said_where_the_record_is_and_how_to_go_on(
    kept: bool, polyrhythm: Any, tiny: Path, tmp_path: Path
) -> None:
    out, steps = tmp_path / "record", tmp_path / "steps"
    checkpoints = ["--checkpoint", steps, "--every", 2] if kept else []
    lost = polyrhythm("run", tiny, "--on", "simulator", "--fault", "crash worker/1 step 5", "--out", out, *checkpoints, "--json")
    assert lost.code == 1
    failed, record, further = [line for line in lost.err.splitlines() if line.startswith("polyrhythm: ")]
    assert failed.startswith("polyrhythm: worker/1 failed: ")
    assert record == f"polyrhythm: the record until then is in {out}; `polyrhythm report {out}` shows it"
    expected = (
        f"the newest checkpoint is {steps / 'step-00000004'}; --resume" if kept else "with --checkpoint DIR a run goes on after such a loss"
    )
    assert further.startswith(f"polyrhythm: {expected}")
    found = json.loads(lost.out)
    assert found["bytes_sent"] > 0
    assert found["messages_sent"] is None  # events do not count them


def test_a_directory_holds_a_run_or_a_comparison_and_not_both(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    assert polyrhythm("run", tiny, "--on", "simulator", "--out", one).code == 0
    assert polyrhythm("compare", tiny, "--systems", "ssp", "--on", "simulator", "--out", several).code == 0
    for command, out, file in (("run", several, "compare.json"), ("compare", one, "run.json")):
        result = polyrhythm(command, tiny, "--on", "simulator", "--out", out)
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
        assert f"--out {out} contains {file}" in result.err
        assert "give another directory" in result.err


def test_a_worker_that_stands_still_ends_the_run_after_the_timeout(polyrhythm: Any, job: Any) -> None:
    path = job(FOREVER.replace("    while True:", "    import time\n    time.sleep(100 * worker.rank)\n    while True:"))
    result = polyrhythm("run", path, "--timeout", 1, "--json")
    assert result.code == 1
    assert "worker/1" in result.err
    assert "within timeout=1 seconds" in result.err
    assert json.loads(result.out)["on"] == "processes"


PARSED = """
import argparse, sys, torch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=1)
{early}

x = torch.linspace(-1, 1, 64).view(-1, 1)

def fit(worker, momentum=0.0):
    {late}
    sys.stdout.write("seen %s %s %s\\n" % (args.lr, args.epochs, momentum))  # at once: all write to one pipe
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=args.lr, momentum=momentum))
    for _ in range(args.epochs):
        for a, b in worker.batches((x, x), batch_size=4):
            torch.nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
"""
EARLY = PARSED.format(early="args = parser.parse_args()", late="pass")
LATE = PARSED.format(early="", late="args = parser.parse_args()")


@pytest.mark.parametrize("text", [EARLY, LATE])
def test_a_script_gets_its_own_arguments(polyrhythm: Any, job: Any, text: str) -> None:
    path = job(text)
    result = polyrhythm("run", f"{path}:fit", "--on", "simulator", "--set", "momentum=0.5", "--", "--lr", "0.25", "--epochs", "2")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("seen 0.25 2 0.5") == 2
    assert "seen 0.1 1 0.0" in polyrhythm("run", f"{path}:fit", "--on", "simulator").out


def test_the_workers_of_real_processes_get_them_too(polyrhythm: Any, job: Any, capfd: pytest.CaptureFixture[str]) -> None:
    result = polyrhythm("run", f"{job(LATE)}:fit", "--on", "processes", "--set", "momentum=0.5", "--", "--lr", "0.25", "--epochs", "2")
    assert result.code == 0, result.err
    assert capfd.readouterr().out.count("seen 0.25 2 0.5") == 2


def refuses_in_its_own_words(code: int, err: str) -> None:
    assert code == 2
    assert "usage: job.py [-h] [--lr LR] [--epochs EPOCHS]" in err
    assert "argument --lr: invalid float value: 'high'" in err
    assert "polyrhythm" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", [EARLY, LATE])
def test_a_script_that_refuses_its_arguments_reports_it_itself(polyrhythm: Any, job: Any, text: str) -> None:
    path = f"{job(text)}:fit"
    result = polyrhythm("run", path, "--on", "simulator", "--", "--lr", "high")
    refuses_in_its_own_words(result.code, result.err)
    shown = polyrhythm("run", path, "--on", "simulator", "--", "--help")
    assert (shown.code, shown.err) == (0, "")
    assert "usage: job.py" in shown.out


def test_a_worker_that_refuses_its_arguments_reports_it_itself(polyrhythm: Any, job: Any, capfd: pytest.CaptureFixture[str]) -> None:
    result = polyrhythm("run", f"{job(LATE)}:fit", "--on", "processes", "--", "--lr", "high")
    refuses_in_its_own_words(result.code, capfd.readouterr().err + result.err)


def test_arguments_for_a_bundled_workload_are_refused(polyrhythm: Any) -> None:
    result = polyrhythm("run", "digits-cnn", "--", "--lr", "0.1")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "takes no arguments" in result.err


def test_a_file_that_trains_while_it_is_imported_is_refused(polyrhythm: Any, tiny: Path) -> None:
    tiny.write_text("import polyrhythm as pr\n" + tiny.read_text() + "pr.run(train, workers=2)\n")
    result = polyrhythm("run", tiny, "--on", "simulator")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "train twice" in result.err


def test_the_simulator_is_meant_where_only_it_has_what_was_given(polyrhythm: Any, tiny: Path) -> None:
    for words in (["--network", "slow"], ["--device", "a100"], ["--devices", "a100"], ["--network", "slow", "--device", "t4"]):
        assert json.loads(polyrhythm("run", tiny, *words, "--json").out)["on"] == "simulator"
    assert json.loads(polyrhythm("run", tiny, "--device", "cpu", "--json").out)["on"] == "processes"


def test_the_record_keeps_the_command_and_the_page_shows_it(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "a b"
    polyrhythm("run", tiny, "--network", "slow", "--system", "ssp", "--option", "slack=2", "--set", "epochs=1", "--out", out)
    command = json.loads((out / "run.json").read_text())["settings"]["command"]
    words = shlex.split(command)
    assert words[:3] == ["polyrhythm", "run", str(tiny)]
    assert polyrhythm("report", out).code == 0
    assert html.escape(command) in (out / "report.html").read_text()
    again = json.loads(polyrhythm(*words[1:], "--json").out)
    assert again == json.loads((out / "run.json").read_text())["summary"]


def heed_interruptions() -> None:
    """As in a terminal: what a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("on", [pytest.param("simulator", marks=pytest.mark.long), "processes"])
def test_an_interruption_is_reported_and_nothing_else(job: Any, on: str) -> None:
    command = [sys.executable, "-m", "polyrhythm", "run", str(job(FOREVER)), "--on", on, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_interruptions) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "started\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "polyrhythm: interrupted\n")


def test_a_run_that_adapts_keeps_the_records_of_its_parts_and_says_where_the_last_is(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    """The first look is after twenty steps; the second part is over before the next."""
    tiny.write_text(
        tiny.read_text().replace("range(self.epochs)", "worker.epochs(self.epochs)").replace("worker.report", "0 and worker.report")
    )
    whole = ("run", tiny, "--network", "lan", "--workers", 2, "--set", "epochs=4", "--json")
    result = polyrhythm(*whole, "--adapt", "loss=0.001", "--timeline", "--out", tmp_path / "out")
    assert result.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["part-0", "part-1"]
    assert f"the record of the run is in {tmp_path / 'out' / 'part-1'}" in result.err
    assert json.loads(result.out)["weights_sha256"] == json.loads(polyrhythm(*whole).out)["weights_sha256"]
    assert '"Delivered"' in (tmp_path / "out" / "part-0" / "events.jsonl").read_text()
    seen = "After 20 steps the run was looked at. No worker and no line is at fault. It goes on as it is until step 80."
    assert seen in " ".join(result.err.split())
    assert seen in (tmp_path / "out" / "part-1" / "run.json").read_text()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--adapt", "bogus"), "'bogus' is not a target"),
        (("--adapt", "loss=0.1", "--workers", 1), "there is one worker: give --workers 2 or more"),
        (("--adapt", "loss=0.1", "--workers", "2..3"), "leave out --mesh and a range of --workers"),
        (("--adapt", "loss=0.1", "--checkpoint", "DIR", "--resume"), "leave out --resume and --override"),
        (("--adapt", "loss=0.1", "--log", "csv:metrics.csv"), "keep the records of all parts by --out"),
    ],
)
def test_what_cannot_adapt_is_refused_before_it_begins(polyrhythm: Any, tiny: Path, given: tuple[Any, ...], why: str) -> None:
    result = polyrhythm("run", tiny, "--network", "lan", *given)
    assert result.code == 2
    assert why in " ".join(result.err.split())
    assert "the user prints" not in result.out + result.err
