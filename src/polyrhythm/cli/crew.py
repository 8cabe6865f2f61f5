"""Several runs at once, each in a process of its own: a copy of this one, so that neither torch nor the JOB is loaded again."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from time import monotonic

from polyrhythm.cli.planned import Planned
from polyrhythm.errors import RunError
from polyrhythm.kernel.events import AnyEvent
from polyrhythm.processes.failure import death
from polyrhythm.processes.prctl import die_with_parent
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.report.progress import Board
from polyrhythm.training.run import Attempt

_FORK = multiprocessing.get_context("fork")
_LOOK_SECONDS = 0.25

Done = Callable[[int, Attempt], None]


@dataclass(slots=True)
class Crew:
    """At most `size` runs at once; `done` is told of each that ended, by its place among the plans."""

    size: int
    board: Board
    done: Done
    _busy: dict[Connection, tuple[int, ForkProcess]] = field(default_factory=dict)

    def work(self, plans: Sequence[tuple[int, Planned, Path | None]]) -> None:
        """Make all runs, the longest first so that none of them is alone at the end. Whatever ends this ends the runs under way."""
        importlib.import_module("torch._dynamo")  # torch does so when it is first used under the counter; every copy would, for a second
        waiting = deque(sorted(plans, key=lambda plan: -expected(plan[1])))
        try:
            while waiting or self._busy:
                while waiting and len(self._busy) < self.size:
                    self._start(*waiting.popleft())
                for heard in wait(list(self._busy), _LOOK_SECONDS):
                    assert isinstance(heard, Connection)
                    self._hear(heard, {place: plan for place, plan, _ in plans})
                self.board.refresh()
        finally:
            for _, process in self._busy.values():
                process.kill()
                process.join()

    def _start(self, place: int, plan: Planned, directory: Path | None) -> None:
        ours, theirs = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_make, args=(plan, directory, theirs, os.getpid()))
        with warnings.catch_warnings():
            # Python warns of threads, whose locks a copy may find held: this process has none of its own, and torch's are idle.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._busy[ours] = place, process
        self.board.begin(plan.name)

    def _hear(self, connection: Connection, plans: dict[int, Planned]) -> None:
        place, process = self._busy[connection]
        try:
            told = connection.recv()
        except EOFError:
            process.join()
            told = _died(plans[place], death(process.exitcode or 0))
        if not isinstance(told, Attempt):
            self.board.see(plans[place].name, told)
            return
        del self._busy[connection]
        connection.close()
        process.join()
        self.board.end(plans[place].name)
        self.done(place, told)


def expected(plan: Planned) -> float:
    """How long the run takes here, beside a run whose time is that of the gradients; only the order counts."""
    return _EXPECTED.get(plan.strategy.name, 1.0)


# Processor time of `polyrhythm run digits-cnn --system NAME --workers 8 --network wan-3 --set epochs=3`, that of easgd being 1: all compute
# equally many gradients, and differ in what their codecs and messages take.
_EXPECTED = {"onebit": 1.9, "strom": 1.6, "allreduce": 1.3, "tree": 1.2, "downpour": 1.1, "ssp": 1.1, "softsync": 1.1, "gossipgrad": 1.1}


def _make(plan: Planned, directory: Path | None, connection: Connection, parent: int) -> None:
    """What a copy of the process does: one run, and telling of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the one that started us ends us
    die_with_parent(parent)
    last = 0.0

    def watch(event: AnyEvent) -> None:
        nonlocal last
        if Board.follows(event) and monotonic() - last > _LOOK_SECONDS:
            last = monotonic()
            connection.send(event)

    attempt = plan.attempt(directory, watch)
    attempt.outcome.weights.clear()  # they are in the directory, if anyone wants them
    with suppress(BrokenPipeError):
        connection.send(attempt)


def _died(plan: Planned, how: str) -> Attempt:
    """The attempt of a process that ended without a word."""
    error = RunError(f"The process of this run was lost: {how}. If memory ran out, give fewer --jobs.")
    workers = plan.strategy.topology.workers(plan.workers)
    summary = Summary(plan.strategy.name, workers, plan.on.kind, plan.on.network_name, plan.seed, error=str(error))
    return Attempt(Outcome(summary, settings=dict(plan.notes), state="failed"), error)
