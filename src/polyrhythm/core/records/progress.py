"""A progress line on stderr while runs are under way, where stderr is a terminal.

`training.run` shows it for one run, the command line and the planner for several at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.records.first_worker import PresentFirst
from polyrhythm.core.records.job_output import Headed, JobOutput, to_stderr

Watch = Callable[[AnyEvent], None]
Begin = Callable[[str], Watch]


@contextmanager
def progress(runs: int, wanted: bool) -> Iterator[Begin]:
    """Yields a function that starts the line of the next of `runs` by its system's name, and returns the observer of its events."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: ignore
        return
    with _line(runs, refreshed=True) as shown:
        task = shown.add_task("", total=runs, steps="")
        started = 0

        def begin(name: str) -> Watch:
            nonlocal started
            shown.update(task, description=name, completed=started, steps="starting")
            started += 1
            first = PresentFirst()

            def watch(event: AnyEvent) -> None:
                if first.sees(event) and isinstance(event, Stepped):
                    shown.update(
                        task, steps=_step(event) + ("" if first.size is None else f", {first.size} worker{'s' * (first.size != 1)}")
                    )

            return watch

        yield begin


def _line(runs: int, refreshed: bool) -> Progress:
    """The line; its own thread redraws it if `refreshed`, else the caller does."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), *((BarColumn(), MofNCompleteColumn()) if runs > 1 else ()))
    return Progress(
        *columns,
        TextColumn("{task.fields[steps]}"),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr),  # what it is now: a JOB's output is redirected while it runs
        auto_refresh=refreshed,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,  # what the user's code prints stays on stdout
    )


class ProgressLine:
    """The line of several runs that are under way at once; it starts no thread, so that the process can fork meanwhile.

    `output` shows the lines that their JOB prints, above the progress line; `say` shows one of ours.
    """

    def __init__(self, shown: Progress | None, runs: int) -> None:
        self._shown = shown
        self._task = TaskID(0) if shown is None else shown.add_task("", total=runs, steps="")
        self._names: list[str] = []
        self._remark = ""
        show = to_stderr() if shown is None else partial(shown.console.print, markup=False, highlight=False)
        self.say = show
        self.output = JobOutput(Headed(show))

    def begin(self, name: str) -> None:
        """Show the name of a run that has started."""
        self._names.append(name)
        self._update(steps="")

    def see(self, name: str, event: Stepped) -> None:
        """Show the step that the first worker has taken in the run of that name."""
        self._update(steps=f"{name}: {_step(event)}")

    def end(self, name: str) -> None:
        """Remove the name of a run that has ended."""
        self._names.remove(name)
        self._update(advance=1, steps="")

    def remark(self, text: str) -> None:
        """Show `text` on the progress of all runs, in place of the step of one."""
        self._remark = text
        self._update(steps="")

    def refresh(self) -> None:
        """Draw the line again."""
        if self._shown is not None:
            self._shown.refresh()

    def _update(self, steps: str, advance: float = 0) -> None:
        if self._shown is not None:
            self._shown.update(self._task, description=", ".join(self._names), advance=advance, steps=self._remark or steps)


@contextmanager
def board(runs: int, wanted: bool) -> Iterator[ProgressLine]:
    """A line about `runs`, several at once, where stderr is a terminal and it is `wanted`."""
    if not (wanted and sys.stderr.isatty()):
        yield ProgressLine(None, runs)
        return
    with _line(runs, refreshed=False) as shown:
        yield ProgressLine(shown, runs)


def _step(event: Stepped) -> str:
    return f"step {event.clock}, at {event.time:.1f} s of the run"


def ignore(event: AnyEvent) -> None:
    """Do nothing with `event`: no progress is shown."""
