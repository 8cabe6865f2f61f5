"""Plotly figures for notebooks."""

from __future__ import annotations

from polyrhythm.report.chart import Line
from polyrhythm.report.metrics import Target
from polyrhythm.report.plot import metric_over_bytes, metric_over_time
from polyrhythm.report.series import series_of

from .scenes import SYSTEMS, outcome, plain


def test_a_run_becomes_one_line_of_worker_0s_reports() -> None:
    (trace,) = metric_over_time(plain("ssp", 9.0, 9, [(1.0, 10, 0.5), (2.0, 20, 0.9)])).data
    assert (trace.name, list(trace.x), list(trace.y)) == ("ssp", [1.0, 2.0], [0.5, 0.9])


def test_bytes_are_drawn_logarithmically_where_they_differ_widely_and_zero_is_left_out() -> None:
    drawn = metric_over_bytes([plain("single", 1.0, 0, [(1.0, 0, 0.5)]), plain("ssp", 1.0, 9, [(1.0, 10, 0.5), (2.0, 9000, 0.9)])])
    assert drawn.layout.xaxis.type == "log"
    assert [trace.name for trace in drawn.data] == ["ssp"]


def test_another_metric_and_a_target_may_be_asked_for() -> None:
    drawn = metric_over_time(outcome("ssp", steps=10), metric="loss", target=Target("loss", 0.5))
    assert drawn.layout.title.text.startswith("Loss against virtual time")
    assert len(drawn.layout.shapes) == 1


def test_real_and_virtual_runs_in_one_figure_are_labelled() -> None:
    drawn = metric_over_time([outcome("ssp", steps=10), outcome("ssp", on="processes", steps=10)])
    assert [trace.name for trace in drawn.data] == ["ssp, virtual", "ssp, real"]
    assert "real or virtual" in drawn.layout.title.text


def test_long_lines_are_thinned_evenly_and_keep_their_ends() -> None:
    (one,) = series_of([plain("ssp", 1.0, 1, [])])
    line = Line(one, [float(x) for x in range(10_001)], [0.0] * 10_001, list(range(10_001))).thinned(500)
    assert len(line.x) == 500
    assert (line.x[0], line.x[-1]) == (0.0, 10_000.0)
    assert max(b - a for a, b in zip(line.x, line.x[1:], strict=False)) <= 21


def test_no_two_of_the_twelve_systems_look_alike_even_without_colour() -> None:
    series = series_of([plain(system, 1.0, 1, []) for system in SYSTEMS])
    assert len({one.colour for one in series}) == 12
    assert len({(one.dash, one.symbol) for one in series}) == 12


def test_a_system_keeps_its_look_in_both_runtimes() -> None:
    real, other, virtual = series_of([outcome("ssp", on="processes", steps=5), outcome("tree", steps=5), outcome("ssp", steps=5)])
    assert real.place == virtual.place != other.place
