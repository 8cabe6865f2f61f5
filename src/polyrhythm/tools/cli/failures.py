"""Error reports of the command line: one sentence on stderr, and an exit code. The functions of commands are wrapped in `guarded`.

0      all went well
1      a run that was started failed, be it one of several, or what it found could not be kept
93     a run was started again and again, and took no further step (that of NVIDIA's resiliency extension)
2      what was given cannot be run: names, options, the JOB, its data
130    interrupted
128+n  stopped by the signal n: 143 by SIGTERM
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from polyrhythm.core.kernel.stopping import StopSignals, note_end, tell
from polyrhythm.core.kernel.stopping import exit_code as interrupted
from polyrhythm.errors import DivergedError, NoProgressError, PolyrhythmError, RunError, ScriptEnded, Stopped, WorkerFailed, sentence

Given = ParamSpec("Given")
Result = TypeVar("Result")

_EXIT = re.compile(r"sys\.exit\((\d+)\)")
# argparse by the end of its path: the one that a compiled file carries need not be the one that it was found by.
_BY_ARGPARSE = re.compile(r'[/\\]argparse\.py", line \d+, in exit\b')


def guarded(command: Callable[Given, Result]) -> Callable[Given, Result]:
    """A command whose PolyrhythmErrors and interruptions end as a sentence and an exit code."""

    @wraps(command)
    def safe(*arguments: Given.args, **options: Given.kwargs) -> Result:
        signals = StopSignals().install()
        ends = False
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt as problem:
            ends = isinstance(problem, Stopped)  # a second one must not break off how this process ends
            note_end(problem, interrupted(problem))
            tell(problem)
            raise typer.Exit(interrupted(problem)) from None
        except PolyrhythmError as error:
            note_end(error, exit_code(error))
            show_error(error)
            raise typer.Exit(exit_code(error)) from None
        finally:
            if not ends:
                signals.restore()

    return safe


def show_error(error: PolyrhythmError, about: str = "") -> None:
    """Print an error on stderr (of the run `about`), and the traceback of the user's own code, if it raised.

    Nothing is printed for a script that refused its own arguments: it has printed why itself.
    """
    if _own_exit(error) is not None:
        return
    notice(f"{about}: {sentence(error)}" if about else sentence(error))
    if isinstance(error, WorkerFailed) and error.trace:
        typer.echo(f"\n{error.trace.rstrip()}", err=True)


def notice(text: str) -> None:
    """One line on stderr, under the program's name."""
    typer.echo(f"polyrhythm: {text}", err=True)


def exit_code(error: PolyrhythmError) -> int:
    """1 for a run that failed, 93 for one that comes no further, 2 for something that could not be run.

    A script that refused its own arguments chooses itself.
    """
    chosen = _own_exit(error)
    if chosen is not None:
        return chosen
    if isinstance(error, NoProgressError):
        return error.EXIT_CODE
    return 1 if isinstance(error, RunError | DivergedError) else 2


def _own_exit(error: PolyrhythmError) -> int | None:
    """The code with which the JOB's argparse ended it, at the top of the file or in a worker."""
    if isinstance(error, ScriptEnded):
        return error.code
    if isinstance(error, WorkerFailed) and _BY_ARGPARSE.search(error.trace) and (found := _EXIT.search(error.reason)):
        return int(found[1])
    return None
