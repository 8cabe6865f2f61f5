"""Keeps the events of a run while it is under way, in memory and in a directory; and how it ended."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import AnyEvent, Recorder
from polyrhythm.core.kernel.names import FIRST
from polyrhythm.core.processes.system.signals import DeferredSignals
from polyrhythm.core.protocols.metrics_logger import MetricsLogger, RunDescription
from polyrhythm.core.records import unfinished
from polyrhythm.core.records.metrics_feed import MetricsFeed
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.records.record import Record
from polyrhythm.core.training.last_checkpoint import last_checkpoint
from polyrhythm.errors import PolyrhythmError, RecordWarning, Stopped, WorkerFailed, sentence


class Log:
    """Keeps events in `outcome`, and as they come in `directory` too, if there is one; shows them to `watch` and to `loggers`.

    If the run is interrupted, a sentence on its latest checkpoint is kept too, and added to the interruption as a note.

    Raises CompositionError if `directory` can hold no record, or a logger lacks what it needs. What cannot be written later is in
    `troubles` when the log is closed.
    """

    def __init__(
        self,
        outcome: Outcome,
        directory: str | Path | None,
        watch: Watch,
        loggers: Sequence[MetricsLogger] = (),
        checkpoints: Checkpoints | None = None,
    ) -> None:
        outcome.state = "running"
        self.outcome = outcome
        self.troubles: list[str] = []
        self._checkpoints = checkpoints or Checkpoints()
        summary = outcome.summary
        run = RunDescription(summary.system, summary.workers, summary.on, summary.seed, outcome.settings)
        self._feed = MetricsFeed(loggers, run)
        self._observers = [*([self._feed.see] if loggers else []), *([] if watch is ignore else [watch])]
        self._record = Record(outcome, directory) if directory is not None else None

    @property
    def record(self) -> Recorder:
        """What keeps an event, and shows it to all observers: a million events of a run that nobody watches are only kept."""
        return self._show if self._observers or self._record is not None else self.outcome.events.append

    def _show(self, event: AnyEvent) -> None:
        self.outcome.events.append(event)
        if self._record is not None:
            self._record.follow()
        for see in self._observers:
            see(event)

    def fail(self, problem: BaseException, name: str = FIRST) -> None:
        """Close the record of a run that `problem` ended at the actor `name`; a signal that comes meanwhile acts only after that."""
        with DeferredSignals(lambda: None):
            note = last_checkpoint(problem, self._checkpoints) if isinstance(problem, KeyboardInterrupt) else ""
            break_off(self.outcome, problem, name, note)
            if note:
                problem.add_note(note)
            self.close()

    def close(self) -> None:
        """Complete the record from the present outcome."""
        if self._record is not None:
            self.troubles += self._record.finish()
            self._record = None
        self.troubles += self._feed.end(self.outcome.state)

    def warn(self) -> None:
        """Warn the caller's caller of what could not be written."""
        for trouble in self.troubles:
            warnings.warn(trouble, RecordWarning, stacklevel=3)


def break_off(outcome: Outcome, problem: BaseException, name: str = FIRST, note: str = "") -> None:
    """Complete `outcome` of a run that `problem` ended at the actor `name`, from its events; `note` ends the text of an interruption."""
    unfinished.count(outcome)
    if isinstance(problem, KeyboardInterrupt):
        outcome.state = "interrupted"
        what = f"stopped by {problem.signal}{problem.reason}" if isinstance(problem, Stopped) else "interrupted"
        outcome.summary.error = ". ".join([f"The run was {what}: {unfinished.extent(outcome)}", *filter(None, [note])]) + "."
        return
    outcome.state = "failed"
    reason = f"it called sys.exit({problem.code!r})" if isinstance(problem, SystemExit) else f"{type(problem).__name__}: {problem}"
    known = problem if isinstance(problem, PolyrhythmError) else WorkerFailed(name, reason)
    outcome.summary.error = sentence(known)
