"""The comparison as text."""

from __future__ import annotations

import re

from polyrhythm.core.kernel.events import Restarted
from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.report.table import text

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
    assert "ssp continued without worker/2." in text([plain("ssp", 1.0, 1, [], lost=["worker/2"])])


def test_a_run_that_was_started_again_states_when_and_why() -> None:
    run = plain("ssp", 8.0, 1, [])
    run.events.append(Restarted(4.1, "worker/1", "worker/1 failed: killed by signal 9 (SIGKILL)"))
    assert "ssp was started again after 4.1 s: worker/1 failed: killed by signal 9 (SIGKILL)." in " ".join(text([run]).split())


def test_real_and_virtual_runs_have_tables_of_their_own() -> None:
    shown = text([outcome("ssp", steps=5), outcome("ssp", on="processes", workers=2, steps=5)])
    assert "On real processes: 2 workers, seed 7" in shown
    assert "In virtual time: 16 workers over slow, seed 7" in shown


def test_names_are_never_read_as_markup() -> None:
    assert "[red]mine[/red]" in text([plain("[red]mine[/red]", 1.0, 1, [])])


def test_thirteen_systems_fit_80_columns_uncut() -> None:
    shown = text([outcome(system, steps=10) for system in SYSTEMS], GOAL, width=80)
    cut = [line for line in shown.splitlines() if "…" in line]
    assert not cut
    assert "gossipgrad" in shown


def test_seeds_are_one_row_of_medians_with_the_least_and_the_greatest() -> None:
    runs = [plain("ssp", 20.0 + seed, 10 * seed, [(time, 5, 0.95)], seed=seed) for seed, time in enumerate((3.0, 9.0, 4.0))]
    never = [plain("tree", 20.0, 10, [(1.0, 5, value)], seed=seed) for seed, value in enumerate((0.2, 0.3, 0.95))]
    lines = text(never + runs, GOAL).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("ssp"))
    assert "4 s" in lines[first]
    assert "(3 s to 9 s), 3 of 3" in lines[first + 1]
    assert "(20 s to 22 s)" in lines[first + 1]
    assert "never" in lines[first + 2]
    assert lines[first + 2].startswith("tree")
    assert "(1 s to never), 1 of 3" in lines[first + 3]
    assert sum(line.startswith(("ssp", "tree")) for line in lines) == 2


def test_the_same_seed_twice_or_other_settings_stay_apart() -> None:
    twice = text([plain("ssp", 1.0, 1, []), plain("ssp", 2.0, 1, [])])
    assert "ssp #2" in twice
    one, other = plain("ssp", 1.0, 1, [], seed=0), plain("ssp", 2.0, 1, [], seed=1)
    one.settings, other.settings = {"train": "fit(lr=0.1)"}, {"train": "fit(lr=0.2)"}
    assert "to 2 s" not in text([one, other])
    other.settings = {"train": "fit(lr=0.1)"}
    assert "(1 s to 2 s)" in text([one, other])


def test_no_runs_give_no_table() -> None:
    assert text([]) == "No runs.\n\nThere are no runs to compare.\n"


def test_a_loop_over_batches_of_its_own_has_no_count_of_samples_rather_than_none() -> None:
    counted, uncounted = plain("ssp", 1.0, 1, []), plain("easgd", 2.0, 1, [])
    uncounted.summary.samples = 0
    assert text([counted, uncounted]).splitlines()[4].split()[-1] == "–"


def test_a_column_in_which_no_run_has_anything_is_left_out() -> None:
    counted = plain("ssp", 1.0, 1, [])
    counted.summary.samples = 0
    assert text([counted]).splitlines()[1].split()[-1] == "steps"
