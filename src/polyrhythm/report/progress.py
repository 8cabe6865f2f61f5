"""One line on stderr that moves while runs are under way; nothing where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from polyrhythm.kernel.events import AnyEvent, Stepped
from polyrhythm.kernel.port import worker

Watch = Callable[[AnyEvent], None]
Begin = Callable[[str], Watch]

_FOLLOWED = worker(0)


@contextmanager
def progress(runs: int, wanted: bool) -> Iterator[Begin]:
    """Gives a function that begins the next of `runs` by its system's name, and returns what to show the events to."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: ignore
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), *((BarColumn(), MofNCompleteColumn()) if runs > 1 else ()))
    shown = Progress(
        *columns,
        TextColumn("{task.fields[steps]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,  # what the user's code prints stays on stdout
    )
    with shown:
        task = shown.add_task("", total=runs, steps="")
        begun = 0

        def begin(name: str) -> Watch:
            nonlocal begun
            shown.update(task, description=name, completed=begun, steps="starting")
            begun += 1
            return lambda event: _see(event, lambda steps: shown.update(task, steps=steps))

        yield begin


def _see(event: AnyEvent, show: Callable[[str], None]) -> None:
    if isinstance(event, Stepped) and event.actor == _FOLLOWED:
        show(f"step {event.clock}, at {event.time:.1f} s of the run")


def ignore(event: AnyEvent) -> None:
    """Nobody watches."""
