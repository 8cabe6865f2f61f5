"""The command line as a test drives it, and JOB files to give it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app

TINY = """
from dataclasses import dataclass
import torch

x = torch.linspace(-1, 1, 64).view(-1, 1)

@dataclass(frozen=True)
class Tiny:
    epochs: int = 2
    learning_rate: float = 0.1

    def __call__(self, worker):
        print("the user prints", self.epochs)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        model, optimizer = worker.attach(model, optimizer)
        for _ in range(self.epochs):
            for a, b in worker.batches((x, 2 * x), batch_size=4):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(a), b)
                loss.backward()
                optimizer.step()
            worker.report(loss=loss.item())

train = Tiny()
"""


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Aggregated]


@pytest.fixture
def polyrhythm() -> Command:
    """Call the program in this process."""

    def call(*arguments: object) -> Aggregated:
        # None takes it away: who runs the tests may have set the width of their terminal
        result = CliRunner(env={"COLUMNS": None}).invoke(
            app, [str(argument) for argument in arguments], prog_name="polyrhythm", catch_exceptions=False
        )
        return Aggregated(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def program() -> Command:
    """Call the program as a person does, in a process of its own."""

    def call(*arguments: object) -> Aggregated:
        command = [sys.executable, "-m", "polyrhythm", *map(str, arguments)]
        env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
        return Aggregated(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Path]:
    """Write a JOB file."""

    def write(text: str) -> Path:
        path = tmp_path / "job.py"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def tiny(job: Callable[[str], Path]) -> Path:
    """A JOB file that trains a line in milliseconds, and prints."""
    return job(TINY)
