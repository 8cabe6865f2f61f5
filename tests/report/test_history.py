"""The reports as a pandas frame."""

from __future__ import annotations

import math
import sys

import pytest

from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.training.result import Run
from polyrhythm.errors import PolyrhythmError

from .scenes import outcome, plain


def test_a_row_is_a_report_of_worker_0_and_a_column_a_metric() -> None:
    history = Run(outcome("ssp", steps=20)).history()
    assert list(history.columns) == ["time", "step", "bytes_sent", "accuracy", "loss"]
    assert list(history["step"]) == [5, 10, 15, 20]
    assert history["time"].is_monotonic_increasing
    assert history["accuracy"].iloc[-1] == outcome("ssp", steps=20).summary.final["accuracy"]
    assert (history.index.name, list(history.index)) == ("report", [0, 1, 2, 3])


def test_a_metric_that_a_report_left_out_is_not_a_number_there() -> None:
    run = plain("ssp", 2.0, 2, [(1.0, 1, 0.5)])
    run.events.append(Reported(2.0, "worker/0", 2, {"loss": 0.25}, 2))
    history = Run(run).history()
    assert math.isnan(history["accuracy"][1])
    assert math.isnan(history["loss"][0])


def test_a_run_without_reports_has_an_empty_history() -> None:
    assert len(Run(plain("ssp", 1.0, 1, [])).history()) == 0


def test_without_pandas_it_states_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PolyrhythmError, match=r'pip install "polyrhythm\[frames\]"'):
        Run(outcome("ssp", steps=5)).history()
