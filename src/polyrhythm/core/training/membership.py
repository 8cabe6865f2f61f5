"""Lets a worker that joined a run leave it: on request, or at the end of its script."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.stopping import StopSignals, tell
from polyrhythm.core.processes.rendezvous.join import JoinedRun
from polyrhythm.core.processes.system.signals import DeferredSignals
from polyrhythm.core.records import killed
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import conclude
from polyrhythm.core.training.work import conclusion, departure
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import Stopped, WorkloadError

_present: list[Membership] = []
"""The membership of the run that this process is in, if any: it can be in one at a time."""


class Membership:
    """This process's part in the run `joined`, whose record is in `log`, until it leaves: soon or at exit.

    `others` are the directories for the records of the other workers, where there are any: one that is killed leaves its own unfinished.
    """

    def __init__(self, joined: JoinedRun, log: Log, signals: StopSignals, others: Mapping[str, Path]) -> None:
        self._joined = joined
        self._log = log
        self._signals = signals
        self._others = others
        self._name = joined.context.port.name
        self._worker: Worker | None = None

    def of(self, worker: Worker) -> None:
        """Set the `worker` that the script trains with; it leaves at the end of the script, unless `leave` is called before."""
        self._worker = worker
        _present.append(self)
        atexit.register(self._at_exit)

    @property
    def failed(self) -> bool:
        """True if the run has failed already."""
        return self._joined.failure is not None

    def leave(self) -> Run:
        """Complete the run, wait for the others to do so too, and release everything; returns the run with its record and its weights.

        Raises the error that the run failed with, if it did; then too everything was released, and this process may join another.
        """
        if self not in _present or self._worker is None:
            raise WorkloadError(f"{self._name} has left its run already: worker.leave() was called before, or the run has failed.")
        worker = self._worker
        self._forget()
        worker.close()
        try:
            if self._joined.failure is not None:
                raise self._joined.failure
            ending = self._joined.leave(self._conclusion(worker))
        except BaseException as problem:
            self._joined.fail(problem, self._fail)
            self._signals.restore()
            raise
        self._complete(ending)
        self._log.warn()
        return Run(self._log.outcome)

    def _complete(self, ending: Ending) -> None:
        """Complete the record of a run that has ended well; a signal that comes meanwhile acts only after that."""
        try:
            with DeferredSignals(lambda: None):
                conclude(self._log.outcome, ending, self._name)
                self._complete_others()
                self._log.close()
        finally:
            self._signals.restore()

    def abandon(self) -> None:
        """Leave a run that has failed."""
        problem = self._joined.failure
        self._forget()
        if self._worker is not None:
            self._worker.close()
        self._joined.abandon(problem)
        self._signals.restore()
        if problem is not None:
            self._log.fail(problem, self._name)
            self._complete_others()

    def _fail(self, problem: BaseException) -> None:
        self._log.fail(problem, self._name)
        self._complete_others()
        if isinstance(problem, Stopped):
            problem.is_told = False
            tell(problem, self._name)

    def _concluded(self, worker: Worker) -> Message:
        worker.close()
        return self._conclusion(worker)

    def _conclusion(self, worker: Worker) -> Message:
        """The worker's result; its counts alone, where it has left a run that continues."""
        return departure(worker) if self._joined.departed else conclusion(worker)

    def _end_badly(self, worker: Worker, problem: BaseException) -> None:
        try:
            worker.close()
        finally:
            self._fail(problem)

    def _complete_others(self) -> None:
        for name, directory in self._others.items():
            killed.complete(directory, f"{name} failed: its process was killed, or its host was lost, as {self._name} found")

    def _forget(self) -> None:
        _present.remove(self)
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """Leave at the end of the script. After a failure nothing is concluded, and the other workers are notified."""
        worker = self._worker
        if worker is None:
            return
        ending = self._joined.end(worker.finished, partial(self._concluded, worker), partial(self._end_badly, worker))
        if ending is None:
            self._signals.restore()
        else:
            self._complete(ending)
            self._log.warn()


def leave_failed() -> None:
    """Release what a failed run of this process still holds. Raises WorkloadError if it is in a run that has not failed."""
    for membership in list(_present):
        if not membership.failed:
            raise WorkloadError("This process is in a run already: call worker.leave(), which completes that one, before pr.join.")
        membership.abandon()
