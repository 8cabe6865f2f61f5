"""A SLURM whose commands are on PATH, and whose jobs are processes of this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nodes_of_slurm import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    """A SLURM of three idle nodes."""
    folder, commands = tmp_path / "slurm", tmp_path / "bin"
    folder.mkdir()
    commands.mkdir()
    program = Path(__file__).with_name("fake_slurm.py")
    for name in ("sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol", "srun"):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S {program} {name} "$@"\n')
        (commands / name).chmod(0o755)
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    yield FakeSlurm(folder)
    for pid in (folder / "jobs").glob("*/pid"):
        if not (pid.parent / "end").exists():
            with suppress(ProcessLookupError):
                os.killpg(int(pid.read_text()), signal.SIGKILL)
