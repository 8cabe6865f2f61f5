"""Hands the metrics of a run to its loggers, while the run is under way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Reported, Stepped
from polyrhythm.core.protocols.metrics_logger import MetricsLogger, MetricsWriter, RunDescription
from polyrhythm.core.records.first_worker import PresentFirst
from polyrhythm.errors import PolyrhythmError

TOTALS = 10
"""Steps of the first worker after which the run's totals are written again."""


class MetricsFeed:
    """The loggers of one run.

    Metrics that the first worker reports keep their names, those of another begin with its own ("worker/1/loss"), and those of the result
    with "evaluation/". "run/seconds", "run/bytes_sent" and "run/samples" are the totals after a step of the first; samples are its own.
    Raises PolyrhythmErrors of loggers that cannot be opened.
    """

    def __init__(self, loggers: Sequence[MetricsLogger], run: RunDescription) -> None:
        self.troubles: list[str] = []
        self._writers: list[tuple[MetricsLogger, MetricsWriter]] = []
        self._last: Stepped | None = None
        self._first = PresentFirst()
        for logger in loggers:
            self._open(logger, run)

    def see(self, event: AnyEvent) -> None:
        """Write the metrics of `event` to all loggers."""
        if not self._writers:
            return
        first = self._first.sees(event)
        if isinstance(event, Reported):
            prefix = "" if first else f"{event.actor}/"
            self._write({prefix + name: value for name, value in event.metrics.items()}, event.clock, event.time)
        elif isinstance(event, Evaluated):
            self._write({f"evaluation/{name}": value for name, value in event.metrics.items()}, event.clock, event.time)
        elif isinstance(event, Stepped) and first:
            self._last = event
            if event.clock % TOTALS == 0:
                self._totals()

    def end(self, state: str) -> list[str]:
        """Write the last totals and close all loggers; returns a sentence for each logger that failed in the run."""
        self._totals()
        for logger, writer in self._writers:
            self._attempt(logger, partial(writer.close, state))
        self._writers = []
        troubles, self.troubles = self.troubles, []
        return troubles

    def _open(self, logger: MetricsLogger, run: RunDescription) -> None:
        try:
            self._writers.append((logger, logger.open(run)))
        except PolyrhythmError:
            self.end("failed")
            raise
        except Exception as problem:
            self._note(logger, problem)

    def _totals(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            metrics = {"run/seconds": last.time, "run/bytes_sent": float(last.bytes_sent), "run/samples": float(last.samples)}
            self._write(metrics, last.clock, last.time)

    def _write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        working = []
        for logger, writer in self._writers:
            if self._attempt(logger, partial(writer.write, metrics, step, seconds)):
                working.append((logger, writer))
        self._writers = working

    def _attempt(self, logger: MetricsLogger, call: Callable[[], None]) -> bool:
        """True if the call succeeded. A logger is the user's, and may raise anything, which must not end a training."""
        try:
            call()
        except Exception as problem:
            self._note(logger, problem)
            return False
        return True

    def _note(self, logger: MetricsLogger, problem: Exception) -> None:
        self.troubles.append(
            f"{type(logger).__name__} failed ({type(problem).__name__}: {problem}), and the run went on without it: what was measured "
            "is in the run's record and in other loggers."
        )
