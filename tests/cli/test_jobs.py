"""`polyrhythm compare` with several runs at once, and with runs that are there already."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.core.lock import hold

from .test_run import heed_interruptions

DEADLY = """
import os, signal, torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker, lr=0.1):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    for a, b in worker.batches((x, x), batch_size=4):
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        if worker.seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    if worker.seed == 2:
        raise ValueError("two")
    worker.report(loss=loss.item())
"""
ENDLESS = """
import os, signal, torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for a, b in worker.batches((x, x), batch_size=4):
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    if worker.rank == 0:
        os.write(2, f"seed {worker.seed}\\n".encode())  # past what shows once the lines that differ in numbers only
    while worker.seed and worker.rank == 0:
        signal.pause()
"""


THREADED = """
import torch

torch.randn(400, 400) @ torch.randn(400, 400)
x = torch.randn(1024, 64, generator=torch.Generator().manual_seed(0))

def train(worker):
    torch.set_num_threads(2)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for (a,) in worker.batches((x,), batch_size=256):
        optimizer.zero_grad()
        model(a).square().mean().backward()
        optimizer.step()
    worker.report(loss=model(x).square().mean().item())
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_runs_at_once_leave_the_same_bytes(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    some = "allreduce,ssp,gossipgrad,onebit,diloco,gaia,streaming-diloco"
    words = ("compare", tiny, "--systems", some, "--workers", 4, "--network", "wan-3", "--json")
    alone = polyrhythm(*words, "--out", tmp_path / "one")
    together = polyrhythm(*words, "--out", tmp_path / "two", "--jobs", 3)
    assert (alone.code, together.code) == (0, 0), together.err
    assert alone.out == together.out
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_run_that_fails_or_dies_takes_no_other_along(polyrhythm: Any, job: Any) -> None:
    result = polyrhythm("compare", job(DEADLY), "--systems", "allreduce,ssp", "--on", "simulator", "--seeds", "0..3", "--jobs", 2, "--json")
    assert result.code == 1
    errors = [run["error"] for run in json.loads(result.out)["runs"]]
    assert [error is None for error in errors] == [True, False, False, True] * 2
    assert "SIGKILL" in errors[1]
    assert "ValueError: two" in errors[2]
    assert "polyrhythm: ssp (seed 1): The process of this run was lost" in result.err


def test_a_job_that_has_used_several_threads_of_torch_does_not_hang_the_copies(
    program: Any, polyrhythm: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    words = ("compare", job(THREADED), "--systems", "single,allreduce", "--network", "slow", "--json")
    together = program(*words, "--jobs", 2)
    assert together.code == 0, together.err
    assert together.out == polyrhythm(*words).out


def test_a_run_that_cannot_be_started_ends_a_comparison_of_several_at_once_with_its_sentence(
    polyrhythm: Any, tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept" / "ssp" / "seed-0").mkdir(parents=True)
    with (tmp_path / "kept" / "ssp" / "seed-0" / "events.jsonl").open("wb") as file:
        hold(file)
        for jobs in (1, 2):
            result = polyrhythm("compare", tiny, "--systems", "ssp", "--network", "slow", "--out", tmp_path / "kept", "--jobs", jobs)
            assert (result.code, result.err.count("\n")) == (2, 1)
            assert "Another run is writing" in result.err


GOES_ON = "the same command goes on from there, and report draws them"


def running_with(word: str) -> list[str]:
    """The processes that have `word` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path.parent.name] * (word.encode() in path.read_bytes())
    return found


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.long), 2])
def test_an_interruption_ends_all_and_the_same_command_goes_on_from_there(polyrhythm: Any, job: Any, tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "kept"
    command = [sys.executable, "-m", "polyrhythm", "compare", str(job(ENDLESS)), "--systems", "ssp", "--seeds", "0..2"]
    command += ["--on", "simulator", "--jobs", str(jobs), "--out", str(out), "--quiet"]
    endless = {f"seed {seed}\n" for seed in range(1, 1 + jobs)}  # at once, so in any order
    for again in (False, True):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interruptions) as running:
            assert running.stderr is not None
            heard = [running.stderr.readline()]
            while heard[-1] and not endless <= set(heard):
                heard.append(running.stderr.readline())
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=30)
        assert running.returncode == 130, heard
        assert err == f"polyrhythm: interrupted: the runs that have ended are in {out}; {GOES_ON}\n"
        assert ("seed 0\n" in heard) is not again
        assert (f"polyrhythm: {out} holds 1 of 3 runs, ended well with the same settings: taken from there\n" in heard) is again
        assert not running_with(str(out))
    drawn = polyrhythm("report", out)
    assert drawn.code == 0, drawn.err
    assert "ssp" in (out / "report.html").read_text()


def test_the_same_command_takes_what_is_there_and_other_settings_are_run_again(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    words = ("compare", tiny, "--on", "simulator", "--out", out, "--systems")
    first = polyrhythm(*words, "allreduce,ssp")
    second = polyrhythm(*words, "allreduce,ssp")
    assert first.err.count("the user prints") == 1  # of two runs of two workers
    assert "the user prints" not in first.out + second.out + second.err
    assert first.out.partition("In virtual")[2] == second.out.partition("In virtual")[2]
    assert f"{out} holds 2 of 2 runs" in second.err
    more = polyrhythm(*words, "allreduce,ssp,tree")
    assert more.err.count("the user prints") == 1
    assert "holds 2 of 3 runs" in more.err
    other = polyrhythm(*words, "allreduce,ssp", "--set", "ssp.epochs=1")
    assert "holds 1 of 2 runs" in other.err
    assert "polyrhythm: ssp is run again, though" in other.err
    assert "train was Tiny(epochs=2" in other.err
    seeds = polyrhythm(*words, "ssp,tree", "--seeds", "0..1", "--set", "ssp.epochs=1")
    assert seeds.err.count("the user prints") == 1
    assert "holds 2 of 4 runs" in seeds.err
    tiny.write_text(tiny.read_text() + "\n# changed\n")
    changed = polyrhythm(*words, "allreduce")
    assert "job sha256 was" in changed.err
    assert "taken from there" not in changed.err


def test_a_run_that_failed_is_run_again(polyrhythm: Any, job: Any, tmp_path: Path) -> None:
    path = job(DEADLY)
    words = ("compare", path, "--systems", "ssp", "--on", "simulator", "--seeds", "0,2", "--out", tmp_path / "kept")
    polyrhythm(*words)
    assert "holds 1 of 2 runs" in (again := polyrhythm(*words)).err
    assert "ValueError: two" in again.err
