"""Several runs at once, each in a separate process: a copy of this one, so that neither torch nor the JOB is loaded again."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from threading import Lock
from time import monotonic

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.processes.runtime.failure import exit_reason
from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.core.records import killed
from polyrhythm.core.records.first_worker import PresentFirst
from polyrhythm.core.records.job_output import JobLine, JobOutput, kept_out
from polyrhythm.core.records.outcome import State
from polyrhythm.core.records.progress import ProgressLine
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import PolyrhythmError, RunError, sentence
from polyrhythm.tools.pools.pools import Done, RunTask

_FORK = multiprocessing.get_context("fork")
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Running:
    """A run that is under way: its place among the plans, what it is, the process that makes it, and where its record is."""

    place: int
    plan: RunTask
    process: ForkProcess
    directory: Path | None

    def killed(self, why: str, state: State) -> None:
        """Complete the record that its process can no longer complete."""
        if self.directory is not None:
            killed.complete(self.directory, why, state)


@dataclass(slots=True)
class RunPool:
    """At most `size` runs at once; `done` is called for each that ended, with its place among the plans."""

    size: int
    board: ProgressLine
    done: Done
    _busy: dict[Connection, _Running] = field(default_factory=dict)

    def work(self, plans: Iterable[tuple[int, RunTask, Path | None]]) -> None:
        """Start all runs in their order, and wait for them. Whatever ends this ends the runs under way.

        Raises the PolyrhythmError of a run that could not be started.
        """
        importlib.import_module("torch._dynamo")  # torch does so when it is first used under the counter; every copy would, for a second
        waiting, more = iter(plans), True
        try:
            while more or self._busy:
                while more and len(self._busy) < self.size:
                    following = next(waiting, None)
                    more = following is not None
                    if following is not None:
                        self._start(*following)
                for ready in wait(list(self._busy), _LOOK_SECONDS):
                    assert isinstance(ready, Connection)
                    self._receive(ready)
                self.board.refresh()
        finally:
            for running in self._busy.values():
                running.process.kill()
                running.process.join()
                running.killed("The run was interrupted together with those in parallel", "interrupted")

    def _start(self, place: int, plan: RunTask, directory: Path | None) -> None:
        ours, theirs = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_make, args=(plan, directory, theirs, os.getpid(), self.board.output.seen))
        with warnings.catch_warnings():
            # Python warns of threads, which a copy lacks and whose locks it may find held: there are those of libraries, which idle
            # while we are here, and are replaced in the copy (see `_make`). A JOB that leaves its own threads at work is warned in
            # the manual.
            warnings.simplefilter("ignore", DeprecationWarning)
            # An interruption while the process is copied would be raised in a callback of fork(), where Python prints and drops it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._busy[ours] = _Running(place, plan, process, directory)
        self.board.begin(plan.name)

    def _receive(self, connection: Connection) -> None:
        running = self._busy[connection]
        try:
            received = connection.recv()
        except EOFError:
            running.process.join()
            received = _died(running.plan, exit_reason(running.process.exitcode or 0))
            running.killed(sentence(received.error).rstrip(".") if received.error else "The run was killed", "failed")
        if isinstance(received, JobLine):
            self.board.output.line(received.text)
            return
        if isinstance(received, Stepped):
            self.board.see(running.plan.name, received)
            return
        del self._busy[connection]
        connection.close()
        running.process.join()
        self.board.end(running.plan.name)
        if isinstance(received, PolyrhythmError):
            raise received
        self.done(running.place, received)


def _make(plan: RunTask, directory: Path | None, connection: Connection, parent: int, seen: set[str]) -> None:
    """The main function of a copy of the process: makes one run, and sends its events, its result, and lines that were not `seen`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent)
    last, lock, first = 0.0, Lock(), PresentFirst()

    def tell(line: str) -> None:
        with lock, suppress(BrokenPipeError):  # a JOB may print in its own threads
            connection.send(JobLine(line))

    def watch(event: AnyEvent) -> None:
        nonlocal last
        if first.sees(event) and isinstance(event, Stepped) and monotonic() - last > _LOOK_SECONDS:
            last = monotonic()
            with lock:
                connection.send(event)

    # In a separate thread: OpenMP's threads belong to the one that first used them, were not copied with it, and would be waited for
    # without end. A new thread gets new ones.
    with ThreadPoolExecutor(max_workers=1) as aside, suppress(BrokenPipeError):
        try:
            with kept_out(JobOutput(tell, seen)):
                attempt = aside.submit(plan.attempt, directory, watch).result()
        except PolyrhythmError as error:
            connection.send(error)
        else:
            attempt.outcome.weights.clear()  # they are in the directory, if anyone wants them
            connection.send(attempt)


def _died(plan: RunTask, how: str) -> Attempt:
    """The attempt of a process that ended without a result."""
    return plan.failed(RunError(f"The process of this run was lost: {how}. If memory ran out, give fewer --jobs."))
