"""Altair charts for notebooks and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.training.result import Run
from polyrhythm.errors import UnknownNameError
from polyrhythm.tools.report.axis import decades
from polyrhythm.tools.report.chart import ChartLine
from polyrhythm.tools.report.plot import metric_over_bytes, metric_over_time
from polyrhythm.tools.report.series import series_of

from .scenes import SYSTEMS, outcome, plain


def rows(chart: alt.LayerChart) -> list[dict[str, Any]]:
    """The lines that a chart holds."""
    return next(data for data in chart.to_dict()["datasets"].values() if "label" in data[0])


def spec(chart: alt.LayerChart) -> dict[str, Any]:
    return chart.to_dict()


def test_a_run_becomes_one_line_of_worker_0s_reports() -> None:
    (line,) = rows(metric_over_time(plain("ssp", 9.0, 9, [(1.0, 10, 0.5), (2.0, 20, 0.9)])))
    assert (line["label"], line["x"], line["y"]) == ("ssp", [1.0, 2.0], [0.5, 0.9])


def test_bytes_are_drawn_logarithmically_where_they_differ_widely_and_zero_is_left_out() -> None:
    drawn = metric_over_bytes([plain("single", 1.0, 0, [(1.0, 0, 0.5)]), plain("ssp", 1.0, 9, [(1.0, 10, 0.5), (2.0, 9000, 0.9)])])
    assert spec(drawn)["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert [line["label"] for line in rows(drawn)] == ["ssp"]


def test_another_metric_and_a_target_may_be_requested() -> None:
    drawn = spec(metric_over_time(outcome("ssp", steps=10), metric="loss", target=Target("loss", 0.5)))
    assert drawn["title"]["text"].startswith("Loss against virtual time")
    assert [{"y": 0.5}] in drawn["datasets"].values()


def test_real_and_virtual_runs_in_one_figure_are_labelled() -> None:
    drawn = metric_over_time([outcome("ssp", steps=10), outcome("ssp", on="processes", steps=10)])
    assert [line["name"] for line in rows(drawn)] == ["ssp, virtual", "ssp, real"]
    assert "real or virtual" in spec(drawn)["title"]["text"]
    assert len(set(spec(drawn)["layer"][0]["encoding"]["color"]["scale"]["range"])) == 2


def test_seeds_of_one_system_are_thin_lines_of_one_colour_with_one_entry_in_the_legend() -> None:
    drawn = metric_over_time([outcome(system, steps=10, seed=seed) for system in ("ssp", "tree") for seed in range(3)])
    assert [line["name"] for line in rows(drawn)] == ["ssp"] * 3 + ["tree"] * 3
    assert len({line["label"] for line in rows(drawn)}) == 6
    assert {line["width"] for line in rows(drawn)} == {1}
    assert spec(drawn)["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["ssp", "tree"]
    assert {line["width"] for line in rows(metric_over_time(outcome("ssp", steps=10)))} == {2}


def test_a_loss_that_is_not_a_number_leaves_a_gap() -> None:
    drawn = metric_over_time(plain("ssp", 9.0, 9, [(1.0, 10, 0.5), (2.0, 20, float("nan")), (3.0, 30, float("inf"))]))
    assert rows(drawn)[0]["y"] == [0.5, None, None]
    drawn.to_json()


@pytest.mark.parametrize("run", [outcome("ssp", steps=10), plain("ssp", 1.0, 1, []), plain("ssp", 1.0, 1, [(1.0, 1, 0.5)])])
def test_a_plot_is_saved_as_a_picture_without_a_browser(run: Outcome, tmp_path: Path) -> None:
    Run(run).plot().save(tmp_path / "curve.svg")
    Run(run).plot().save(tmp_path / "curve.png")
    assert (tmp_path / "curve.svg").read_text().startswith("<svg")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_long_lines_are_thinned_evenly_and_keep_their_ends() -> None:
    (one,) = series_of([plain("ssp", 1.0, 1, [])])
    line = ChartLine(one, [float(x) for x in range(10_001)], [0.0] * 10_001, list(range(10_001))).thinned(500)
    assert len(line.x) == 500
    assert (line.x[0], line.x[-1]) == (0.0, 10_000.0)
    assert max(b - a for a, b in zip(line.x, line.x[1:], strict=False)) <= 21


@pytest.mark.parametrize(
    ("values", "ticks"), [([0.2, 8000], [1, 10, 100, 1000]), ([0.2, 14.0], [0.2, 0.5, 1, 2, 5, 10]), ([3.7, 6.6], [4, 5, 6]), ([3.0], [])]
)
def test_a_logarithmic_axis_has_few_round_numbers(values: list[float], ticks: list[float]) -> None:
    assert decades(values) == pytest.approx(ticks)


def test_the_commands_that_draw_nothing_do_not_load_the_drawing_library() -> None:
    code = "import sys, polyrhythm, polyrhythm.tools.cli.app; assert not {'altair', 'vl_convert', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_thirteen_systems_are_distinguished() -> None:
    encoding = spec(metric_over_time([outcome(system, steps=10) for system in SYSTEMS]))["layer"][0]["encoding"]
    looks = zip(encoding["color"]["scale"]["range"], map(tuple, encoding["strokeDash"]["scale"]["range"]), strict=True)
    assert len(set(looks)) == len(SYSTEMS)


def test_a_metric_may_have_any_name(tmp_path: Path) -> None:
    name = "it's \"so\" \\ <b>good</b> {x} % of 'datum'"
    run = plain("ssp", 9.0, 9, [(1.0, 10, 0.5)])
    run.events.append(Reported(2.0, "worker/0", 2, {name: 0.5}, 20))
    metric_over_time(run, name).save(tmp_path / "curve.svg")
    assert "It's \"so\" \\ &lt;b&gt;good&lt;/b&gt; {x} % of 'datum' against" in (tmp_path / "curve.svg").read_text()


def test_a_metric_that_no_run_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"called 'los'\. Did you mean 'loss'\?"):
        metric_over_time(outcome("ssp"), metric="los")
