"""The comparison as text."""

from __future__ import annotations

import re

from polyrhythm.report.metrics import Target
from polyrhythm.report.table import text

from .scenes import SYSTEMS, failed, outcome, plain

GOAL = Target("accuracy", 0.9)


def test_it_shows_every_system_with_its_numbers() -> None:
    shown = text([plain("ssp", 8.0, 3_000_000, [(5.0, 2000, 0.92)])], GOAL)
    assert "In virtual time: 4 workers over slow, seed 7" in shown
    for cell in ("ssp", "8 s", "5 s", "0.92", "3 MB", "40", "100"):
        assert re.search(rf"(?m)(^|\s){cell}(\s|$)", shown), cell


def test_the_soonest_to_the_target_stands_first_and_failures_last() -> None:
    late = plain("ssp", 20.0, 10, [(10.0, 5, 0.95)])
    soon = plain("tree", 30.0, 10, [(3.0, 5, 0.95)])
    never = plain("easgd", 1.0, 10, [(1.0, 5, 0.2)])
    shown = text([failed("bagua"), never, late, soon], GOAL)
    starts = [line.split()[0] for line in shown.splitlines() if line.split()[:1] and line.split()[0] in ("ssp", "tree", "easgd", "bagua")]
    assert starts[:4] == ["tree", "ssp", "easgd", "bagua"]
    assert "not reached" in shown


def test_a_failure_is_one_line_without_traceback_and_shortened() -> None:
    shown = text([failed("bagua", "worker/3 failed: " + "x " * 400 + "\n\nTraceback")])
    assert "bagua: worker/3 failed:" in shown
    assert "Traceback" not in shown
    assert "…" in shown


def test_workers_that_were_lost_are_named() -> None:
    assert "ssp went on without worker/2." in text([plain("ssp", 1.0, 1, [], lost=["worker/2"])])


def test_real_and_virtual_runs_have_tables_of_their_own() -> None:
    shown = text([outcome("ssp", steps=5), outcome("ssp", on="processes", workers=2, steps=5)])
    assert "On real processes: 2 workers, seed 7" in shown
    assert "In virtual time: 16 workers over slow, seed 7" in shown


def test_names_are_never_read_as_markup() -> None:
    assert "[red]mine[/red]" in text([plain("[red]mine[/red]", 1.0, 1, [])])


def test_twelve_systems_fit_80_columns_uncut() -> None:
    shown = text([outcome(system, steps=10) for system in SYSTEMS], GOAL, width=80)
    cut = [line for line in shown.splitlines() if "…" in line]
    assert not cut
    assert "gossipgrad" in shown


def test_no_runs_give_no_table() -> None:
    assert text([]) == "No runs.\n\nThere are no runs to compare.\n"


def test_a_loop_over_batches_of_its_own_has_no_count_of_samples_rather_than_none() -> None:
    counted = plain("ssp", 1.0, 1, [])
    counted.summary.samples = 0
    assert text([counted]).splitlines()[3].split()[-1] == "–"
