"""Who computed and who waited."""

from __future__ import annotations

import pytest

from polyrhythm.core.kernel.events import Computed, Waited
from polyrhythm.tools.report.series import series_of
from polyrhythm.tools.report.shares import shares, shares_of

from .scenes import outcome, plain


def test_shares_are_of_all_workers_and_of_the_whole_run_where_none_took_a_step() -> None:
    run = plain("ssp", 10.0, 1, [])
    run.events = [Computed(2.0, "worker/0", 2.0), Waited(7.0, "worker/0", 5.0), Computed(4.0, "worker/1", 4.0)]
    assert shares(run) == (0.3, 0.25)


def test_a_run_that_recorded_no_time_has_no_shares() -> None:
    assert shares(plain("ssp", 1.0, 1, [])) is None
    assert shares_of(series_of([plain("ssp", 1.0, 1, [])])) == []


def test_seeds_of_one_system_have_one_bar_their_mean() -> None:
    runs = [outcome("ssp", steps=10, seed=seed) for seed in range(3)]
    (one,) = shares_of(series_of(runs))
    each = [parts for run in runs if (parts := shares(run)) is not None]
    assert one.computing == pytest.approx(sum(parts[0] for parts in each) / 3)
    assert one.waiting == pytest.approx(sum(parts[1] for parts in each) / 3)
