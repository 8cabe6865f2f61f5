"""Records of runs that did not end, or lie on a full disk, on the command line."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyrhythm.core.records.load import load

LONG = """
import os, signal, time
import torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

def train(worker):
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for epoch in range(8):
        for a, b in worker.batches((x, 2 * x), batch_size=4):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(a), b).backward()
            optimizer.step()
        worker.report(epoch=epoch)
        if epoch == 3 and worker.rank == 0:
            {deed}
"""


def test_an_interrupted_run_has_a_record_that_is_drawn(polyrhythm: Any, job: Any, tmp_path: Path) -> None:
    script = job(LONG.replace("{deed}", "signal.raise_signal(signal.SIGINT)"))
    result = polyrhythm("run", script, "--on", "simulator", "--out", tmp_path / "kept")
    assert (result.code, result.err) == (130, "polyrhythm: interrupted\n")
    assert polyrhythm("report", tmp_path / "kept").code == 0
    page = (tmp_path / "kept" / "report.html").read_text()
    assert "The run was interrupted: " in page
    assert load(tmp_path / "kept").summary.steps == 32


def test_a_run_is_drawn_while_it_is_under_way_and_after_it_was_killed(polyrhythm: Any, job: Any, tmp_path: Path) -> None:
    script = job(LONG.replace("{deed}", "print('here', flush=True), signal.pause()"))
    command = [sys.executable, "-m", "polyrhythm", "run", str(script), "--on", "simulator", "--out", str(tmp_path / "kept")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"here\n"
        result = polyrhythm("report", tmp_path / "kept")
        under_way = (tmp_path / "kept" / "report.html").read_text()
        refused = polyrhythm("run", script, "--on", "simulator", "--out", tmp_path / "kept")
        run.send_signal(signal.SIGKILL)
    assert (result.code, result.err) == (0, "")
    assert "The run is still running: " in under_way
    assert refused.code == 2
    assert "Another run is writing its record into" in refused.err
    assert polyrhythm("report", tmp_path / "kept").code == 0
    assert "The run did not end: " in (tmp_path / "kept" / "report.html").read_text()


FILL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))"


@contextmanager
def disk() -> Iterator[None]:
    """A disk that has room again afterwards: filled, it takes no file of more than 2,000 bytes, be it the one with what pytest says."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_on_a_disk_that_fills_up_shows_its_table_states_what_is_not_kept_and_exits_with_1(
    polyrhythm: Any, job: Any, tmp_path: Path
) -> None:
    with disk():
        result = polyrhythm("run", job(LONG.replace("{deed}", FILL)), "--on", "simulator", "--out", tmp_path / "kept")
    assert result.code == 1
    assert "allreduce ended after" in result.out
    assert "events.jsonl could not be written (File too large)" in result.err
    assert "the record of the run is in" not in result.err
    kept = load(tmp_path / "kept")
    assert (kept.state, kept.summary.steps, len(kept.remarks)) == ("ended", 64, 1)


def test_a_comparison_on_a_disk_that_fills_up_goes_on_to_its_table_and_exits_with_1(polyrhythm: Any, job: Any, tmp_path: Path) -> None:
    script = job(LONG.replace("{deed}", FILL))
    with disk():
        result = polyrhythm("compare", script, "--systems", "ssp,allreduce", "--on", "simulator", "--out", tmp_path / "kept")
    assert result.code == 1
    assert "ssp: The record in" in result.err
    assert "allreduce: No record can be written in" in result.err
    assert "allreduce" in result.out


def test_a_disk_that_is_full_already_is_refused_before_anything_runs(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    with disk():
        exec(FILL)
        result = polyrhythm("run", tiny, "--on", "simulator", "--out", tmp_path / "kept")
    assert (result.code, result.out) == (2, "")
    assert "cannot be written to: File too large" in result.err


def test_a_comparison_whose_run_json_is_damaged_uses_its_own_numbers(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert polyrhythm("compare", tiny, "--systems", "ssp,allreduce", "--on", "simulator", "--out", kept).code == 0
    (kept / "ssp" / "seed-0" / "run.json").write_bytes(b'{"x":' + b"[" * 200_000)
    (kept / "allreduce" / "seed-0" / "run.json").unlink()
    assert polyrhythm("report", kept).code == 0
    assert "run.json is damaged" in (kept / "report.html").read_text()
    result = polyrhythm("report", kept / "ssp" / "seed-0")
    assert result.code == 2
    assert "run.json is damaged (maximum recursion depth exceeded" in result.err
    assert "Its events.jsonl holds " in result.err
    (kept / "compare.json").write_bytes(b'{"x":' + b"[" * 200_000)
    assert "is not what polyrhythm compare writes" in polyrhythm("report", kept).err
