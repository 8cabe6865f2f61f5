"""`polyrhythm launch`: what is handed over to an engine, and what is refused before."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOINS = """
import sys
import torch
import polyrhythm as pr

worker = pr.join("allreduce")
model = torch.nn.Linear(1, 1)
worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
print(f"rank {worker.rank} of {worker.workers} {sys.argv[1:]}", flush=True)
"""


def _shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a batch script where `folder` has the commands of SLURM."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "n[0-1]"}
    return subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False, env=environment, timeout=60)


def _command(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def srun(tmp_path: Path) -> Path:
    """A folder with scontrol, and an srun that notes its arguments in `log` and ends with the next of the `codes`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    _command(
        folder, "scontrol", '#!/bin/bash\n[ "$2" = hostnames ] && printf "n0\\nn1\\n" || echo "NodeName=$3 NodeAddr=10.0.0.7 Port=1"\n'
    )
    note = f'#!/bin/bash\necho "$MASTER_ADDR ${{#POLYRHYTHM_SECRET}} $@" >> {folder}/log\n'
    _command(folder, "srun", f"{note}code=$(head -n 1 {folder}/codes)\nsed -i 1d {folder}/codes\nexit $code\n")
    return folder


def test_a_batch_script_begins_the_workers_again_from_the_newest_checkpoint(polyrhythm: Any, tiny: Path, srun: Path) -> None:
    options = ["--engine", "restarts=2", "--engine", "options=-N2 --partition=short"]
    result = polyrhythm("launch", tiny, "--on", "slurm", "--workers", 4, "--checkpoint", "c", "--every", 10, *options, "--print")
    assert result.code == 0, result.err
    assert "#SBATCH --ntasks=4\n" in result.out
    assert "#SBATCH -N2 --partition=short\n" in result.out
    (srun / "codes").write_text("137\n0\n")
    done = _shell(result.out, srun)
    assert done.returncode == 0, done.stderr
    first, again = (srun / "log").read_text().splitlines()
    assert first.startswith("10.0.0.7 32 --kill-on-bad-exit=1")
    assert first.endswith(f"-m polyrhythm join {tiny} --checkpoint c --every 10")
    assert again == f"{first} --resume"
    assert "started again (1 of 2)" in done.stderr


@pytest.mark.parametrize(("codes", "starts", "code"), [("1\n1\n1\n1\n", 3, 1), ("2\n0\n", 1, 2)])
def test_a_batch_script_ends_after_its_restarts_and_at_once_where_nothing_can_be_run(
    polyrhythm: Any, tiny: Path, srun: Path, codes: str, starts: int, code: int
) -> None:
    script = polyrhythm("launch", tiny, "--on", "slurm", "--engine", "restarts=2", "--print").out
    (srun / "codes").write_text(codes)
    assert _shell(script, srun).returncode == code
    assert len((srun / "log").read_text().splitlines()) == starts


@pytest.mark.long
def test_a_command_line_that_is_printed_can_be_run_and_worker_0_prints_the_table(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("launch", tiny, "--on", "torchrun", "--system", "ssp", "--option", "slack=2", "--print")
    done = subprocess.run(["bash", "-c", result.out], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ssp ended with loss") == 1


def test_a_script_that_joins_by_itself_is_started_as_it_is(tmp_path: Path, program: Any) -> None:
    script = tmp_path / "mine.py"
    script.write_text(JOINS)
    result = program("launch", script, "--on", "torchrun", "--engine", "restarts=0", "--", "--fast")
    assert result.code == 0, result.err
    assert sorted(re.findall(r"rank \d of 2 \['--fast'\]", result.out)) == ["rank 0 of 2 ['--fast']", "rank 1 of 2 ['--fast']"]


def test_an_engine_that_is_not_here_is_named(polyrhythm: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = polyrhythm("launch", tiny, "--on", "slurm")
    assert (result.code, result.out) == (2, "")
    assert "no command 'sbatch' here" in result.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--on", "ray"], "polyrhythm run --on ray"),
        (["--on", "slurn"], "Did you mean 'slurm'?"),
        (["--on", "slurm", "--engine", "colour=red"], "option of slurm"),
        (["--on", "slurm", "--system", "single"], "uses 1 workers, not 2"),
        (["--on", "slurm", "--set", "speed=3"], "speed"),
    ],
)
def test_what_every_worker_would_refuse_is_refused_here(polyrhythm: Any, tiny: Path, options: list[str], reason: str) -> None:
    result = polyrhythm("launch", tiny, "--print", *options)
    assert (result.code, result.out) == (2, "")
    assert reason in result.err


def test_options_for_a_script_that_gives_its_own_are_refused(polyrhythm: Any, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(JOINS)
    result = polyrhythm("launch", script, "--on", "slurm", "--system", "ssp", "--print")
    assert result.code == 2
    assert "leave --system ssp out" in result.err
    assert shlex.quote(sys.executable) in polyrhythm("launch", script, "--on", "slurm", "--print").out
