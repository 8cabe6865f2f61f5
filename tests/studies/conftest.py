"""The command line as a test drives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app


class StudyResult(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def polyrhythm() -> Callable[..., StudyResult]:
    """Call the program in this process."""

    def call(*arguments: object) -> StudyResult:
        words = [str(argument) for argument in arguments]
        result = CliRunner(env={"COLUMNS": None}).invoke(app, words, prog_name="polyrhythm", catch_exceptions=False)
        return StudyResult(result.exit_code, result.stdout, result.stderr)

    return call
