"""The evaluations and the reports of worker 0 as a table for pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyrhythm.core.records.metrics import curve_of, metrics_of
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import PolyrhythmError

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(outcome: Outcome) -> DataFrame:
    """A row for each evaluation and each report of worker 0, by time, numbered by the index: `time`, `step`, `bytes_sent`, each metric.

    A metric is NaN in the rows of events without it; one that was evaluated is not taken from reports. Raises PolyrhythmError where pandas
    is not installed.
    """
    try:
        from pandas import DataFrame, RangeIndex
    except ImportError:
        raise PolyrhythmError(
            'run.history() returns a pandas DataFrame, but pandas is not installed: run pip install "polyrhythm[frames]", '
            "or read the Evaluated and Reported events in run.outcome.events."
        ) from None
    curves = {name: curve_of(outcome, name) for name in metrics_of([outcome])}
    rows = sorted({id(event): event for curve in curves.values() for event in curve}.values(), key=lambda event: event.time)
    columns = {
        "time": [event.time for event in rows],
        "step": [event.clock for event in rows],
        "bytes_sent": [event.bytes_sent for event in rows],
    }
    values = {name: {id(event): event.metrics[name] for event in curve} for name, curve in curves.items()}
    measured = {name: [known.get(id(event), float("nan")) for event in rows] for name, known in values.items()}
    return DataFrame(columns | measured, index=RangeIndex(len(rows), name="report"))
