"""When a target was reached, of runs whose result was evaluated at the moments of a grid."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polyrhythm.core.kernel.events import Evaluated, Reported
from polyrhythm.core.records.history import frame
from polyrhythm.core.records.metrics import Target, curve_of, primary_metric
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.units import show_bytes, show_seconds, show_window
from polyrhythm.tools.report.chart import over_time
from polyrhythm.tools.report.rows import sheet
from polyrhythm.tools.report.sentence import sentence
from polyrhythm.tools.report.series import series_of

GOAL = Target("accuracy", 0.9)


def evaluated(system: str, *curve: tuple[float, float, float], on: str = "simulator", seed: int = 0) -> Outcome:
    """A run of which (time, since, accuracy) is known."""
    end = curve[-1][0]
    summary = Summary(system, 2, on, "slow", seed, 10, 100, None, end, 1000, 10, {"accuracy": curve[-1][2]})
    if on == "processes":
        summary.seconds, summary.virtual_seconds, summary.network = end, None, None
    events = [Evaluated(time, "worker/0", k, {"accuracy": value}, 100 * k, since) for k, (time, since, value) in enumerate(curve)]
    misleading = Reported(0.001, "worker/0", 1, {"accuracy": 0.99}, 0)
    return Outcome(summary, [misleading, *events])


SLOW = evaluated("allreduce", (1.0, 0.92, 0.5), (2.0, 1.83, 0.95))
FAST = evaluated("sparknet", (0.31, 0.284, 0.5), (0.338, 0.31, 0.92), (0.7, 0.65, 0.91))


def test_a_run_with_evaluations_is_judged_by_them_alone() -> None:
    assert [event.metrics["accuracy"] for event in curve_of(FAST, "accuracy")] == [0.5, 0.92, 0.91]
    reached = GOAL.first_reached(FAST)
    assert reached is not None
    assert reached.time == 0.338


def test_what_was_only_reported_has_its_own_curve_next_to_evaluations() -> None:
    run = evaluated("ssp", (1.0, 0.9, 0.5), (2.0, 1.8, 0.95))
    run.events.append(Reported(1.5, "worker/0", 3, {"loss": 0.4, "epoch": 1.0}, 200))
    assert [event.time for event in curve_of(run, "loss")] == [1.5]
    assert primary_metric([run]) == "accuracy"
    assert Target("loss", 0.5).first_reached(run) is run.events[-1]
    table = frame(run)
    assert list(table["time"]) == [1.0, 1.5, 2.0]
    assert list(table["accuracy"].dropna()) == [0.5, 0.95]
    assert list(table["loss"].dropna()) == [0.4]


def test_the_table_shows_between_which_moments() -> None:
    cells = sheet(series_of([SLOW, FAST]), GOAL)
    assert [row[:2] for row in cells.rows] == [["sparknet", "between 310 and 338 ms"], ["allreduce", "between 1.83 and 2 s"]]


def test_the_sentence_shows_it_too() -> None:
    text = sentence([SLOW, FAST], GOAL)
    assert text.startswith("sparknet reached accuracy 0.9 first, between 310 and 338 ms of virtual time, 5.9 times as fast as allreduce.")


def test_two_that_came_between_the_same_moments_are_a_tie() -> None:
    other = evaluated("tree", (0.338, 0.31, 0.93))
    assert sentence([other, FAST], GOAL).startswith("tree and sparknet reached accuracy 0.9 at the same time, between 310 and 338 ms")


def test_several_seeds_show_their_medians() -> None:
    runs = [
        evaluated("sparknet", (end, since, 0.92), seed=seed) for seed, (end, since) in enumerate([(0.3, 0.28), (0.4, 0.36), (0.5, 0.46)])
    ]
    assert "between 360 and 400 ms" in sentence(runs, GOAL)


def test_the_table_and_the_sentence_cover_the_same_seeds_also_where_one_never_got_there() -> None:
    a = [evaluated("easgd", (end, since, 0.92), seed=seed) for seed, (end, since) in enumerate([(10.0, 9.0), (20.0, 18.0)])]
    a.append(evaluated("easgd", (30.0, 28.0, 0.5), seed=2))
    b = [evaluated("sparknet", (40.0, 37.0, 0.95), seed=seed) for seed in range(3)]
    assert sheet(series_of([*a, *b]), GOAL).rows[0][1] == "20 s\n(10 s to never), 2 of 3"
    assert "easgd reached accuracy 0.9 first, between 18 and 20 s" in sentence([*a, *b], GOAL)


def test_windows_that_overlap_have_no_order() -> None:
    a, b, late = evaluated("ssp", (20.0, 18.0, 0.92)), evaluated("allreduce", (21.9, 19.0, 0.92)), evaluated("tree", (40.0, 37.0, 0.92))
    assert sentence([a, b], GOAL).startswith("ssp and allreduce reached accuracy 0.9 at the same time, between 18 and 21.9 s")
    assert sentence([a, b, late], GOAL).startswith("ssp and allreduce reached accuracy 0.9 first, between 18 and 21.9 s of virtual time.")


def test_a_logarithmic_axis_begins_with_the_first_step() -> None:
    quick, slow = (
        evaluated(name, (0.001, 0.0, 0.1), (end / 2, 0.4 * end, 0.5), (end, 0.9 * end, 0.92))
        for name, end in (("ssp", 2.0), ("tree", 90.0))
    )
    drawn, alone = over_time(series_of([quick, slow]), "accuracy"), over_time(series_of([quick]), "accuracy")
    assert (drawn.log, [line.x for line in drawn.lines]) == (True, [[1.0, 2.0], [45.0, 90.0]])
    assert (alone.log, alone.lines[0].x) == (False, [0.001, 1.0, 2.0])


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (show_seconds, 0.9996, "1 s"),
        (show_seconds, 0.0009999, "1 ms"),
        (show_seconds, 119.7, "2 min"),
        (show_seconds, 3 * 3600, "3 h"),
        (show_seconds, 86400, "24 h"),
        (show_seconds, 86400 * 2000.4, "2,000 days"),
        (show_bytes, 999_600, "1 MB"),
        (show_bytes, 999.6, "1 kB"),
        (show_bytes, 12, "12 B"),
        (show_bytes, 3.2e18, "3,200 PB"),
    ],
)
def test_a_unit_is_chosen_by_what_is_shown(show: Callable[[float], str], value: float, text: str) -> None:
    assert show(value) == text


@pytest.mark.parametrize(
    ("begin", "end", "text"),
    [
        (0.31, 0.338, "between 310 and 338 ms"),
        (0.95, 1.04, "between 950 ms and 1.04 s"),
        (2.0, 2.0001, "after 2 s"),
        (0.0, 0.001, "between 0 and 1 ms"),
    ],
)
def test_a_window_is_written_with_one_unit_where_one_will_do(begin: float, end: float, text: str) -> None:
    assert show_window(begin, end) == text
