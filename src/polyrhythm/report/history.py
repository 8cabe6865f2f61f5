"""What worker 0 reported, as a table for pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyrhythm.errors import PolyrhythmError
from polyrhythm.report.metrics import metrics_of, reports_of
from polyrhythm.report.outcome import Outcome

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(outcome: Outcome) -> DataFrame:
    """A row for each report of worker 0, numbered by the index: `time`, `step`, `bytes_sent`, and a column for each metric.

    A metric that a report did not name is not a number there. Raises PolyrhythmError where pandas is not installed.
    """
    try:
        from pandas import DataFrame, RangeIndex
    except ImportError:
        raise PolyrhythmError(
            'run.history() gives a frame of pandas, which is not installed: run pip install "polyrhythm[frames]", '
            "or read the Reported events in run.outcome.events."
        ) from None
    reports = reports_of(outcome)
    columns = {
        "time": [report.time for report in reports],
        "step": [report.clock for report in reports],
        "bytes_sent": [report.bytes_sent for report in reports],
    }
    reported = {name: [report.metrics.get(name, float("nan")) for report in reports] for name in metrics_of([outcome])}
    return DataFrame(columns | reported, index=RangeIndex(len(reports), name="report"))
