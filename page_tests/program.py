"""The program, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app


def command(*words: object) -> None:
    """Call the program, which must end well."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
