"""Who computed and who waited."""

from __future__ import annotations

import pytest

from polyrhythm.kernel.events import Computed, Reported, Stepped, Waited
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.series import series_of
from polyrhythm.report.timeline import FULL, joined, rows_of, shares, window

from .scenes import outcome, plain


def made(*events: Computed | Waited | Reported) -> Outcome:
    run = plain("ssp", 10.0, 1, [])
    run.events = list(events)
    return run


def test_spans_are_cut_at_the_window_and_reports_marked() -> None:
    events = (
        Computed(1.0, "worker/0", 1.0),
        Waited(5.0, "worker/0", 4.0),
        Reported(1.5, "worker/0", 1, {}, 0),
        Computed(9.0, "worker/0", 1.0),
    )
    (row,) = rows_of(made(*events), 3.0)
    assert row.computed == {FULL: [(0.0, 1.0)]}
    assert row.waited == [(1.0, 3.0)]
    assert row.reports == [1.5]


def test_at_most_eight_workers_are_shown_first_and_last_among_them_in_order_of_rank() -> None:
    rows = rows_of(outcome("ssp", workers=64, steps=3), 1.0)
    assert len(rows) == 8
    assert (rows[0].actor, rows[-1].actor) == ("worker/0", "worker/63")


def test_thousands_of_short_steps_become_shades_that_keep_the_share_of_work() -> None:
    events = [Computed(step * 0.001 + 0.0005, "worker/0", 0.0005) for step in range(10_000)]
    (row,) = rows_of(made(*events), 10.0)
    assert sum(len(spans) for spans in row.computed.values()) <= 200
    work = sum(level / FULL * (end - begin) for level, spans in row.computed.items() for begin, end in spans)
    assert work == pytest.approx(5.0, rel=0.15)


def test_work_without_a_pause_is_one_bar() -> None:
    events = [Computed(step * 0.001 + 0.001, "worker/0", 0.001) for step in range(10_000)]
    (row,) = rows_of(made(*events), 10.0)
    assert [len(spans) for spans in row.computed.values()] == [1]


def test_shares_are_of_the_whole_run_and_all_workers() -> None:
    run = made(Computed(2.0, "worker/0", 2.0), Waited(7.0, "worker/0", 5.0), Computed(4.0, "worker/1", 4.0))
    assert shares(run) == (0.3, 0.25)
    assert shares(plain("ssp", 1.0, 1, [])) is None


def test_the_window_shows_at_least_two_steps_of_the_slowest() -> None:
    fast, slow = outcome("single", steps=30), outcome("tree", steps=30)
    seconds = window(series_of([fast, slow]))
    steps = [event.time for event in slow.events if isinstance(event, Stepped) and event.actor == "worker/0"]
    assert steps[1] <= seconds


def test_overlapping_and_touching_spans_are_joined() -> None:
    assert joined([(3.0, 4.0), (0.0, 1.0), (1.0, 2.0), (3.5, 3.6)], 0.1) == [(0.0, 2.0), (3.0, 4.0)]
