"""Labels and looks."""

from __future__ import annotations

from polyrhythm.tools.report.series import circumstances, series_of

from .scenes import SYSTEMS, outcome, plain


def test_no_two_of_the_thirteen_systems_look_alike_even_without_colour() -> None:
    series = series_of([plain(system, 1.0, 1, []) for system in SYSTEMS])
    assert len({one.colour for one in series}) == len(SYSTEMS)
    assert len({(one.dash, one.symbol) for one in series}) == len(SYSTEMS)


def test_a_system_keeps_its_look_in_both_runtimes() -> None:
    real, other, virtual = series_of([outcome("ssp", on="processes", steps=5), outcome("tree", steps=5), outcome("ssp", steps=5)])
    assert real.place == virtual.place != other.place


def test_seeds_of_one_system_share_name_and_look_and_keep_labels_of_their_own() -> None:
    runs = [outcome(system, steps=5, seed=seed) for seed in (1, 2) for system in ("ssp", "tree")]
    for run in runs:
        run.settings["runtime"] = f"Simulator(network='slow', seed={run.summary.seed})"
    series = series_of(runs)
    assert [one.name for one in series] == ["ssp", "tree", "ssp", "tree"]
    assert [one.place for one in series] == [0, 1, 0, 1]
    assert [one.label for one in series] == ["ssp (seed 1)", "tree (seed 1)", "ssp (seed 2)", "tree (seed 2)"]


def test_runs_that_differ_in_more_than_the_seed_look_different() -> None:
    one, two, third, again = (plain("ssp", 1.0, 1, [], seed=seed) for seed in (1, 2, 1, 1))
    two.settings = third.settings = {"strategy": "Strategy(slack=9)"}
    series = series_of([one, two, third, again])
    assert [each.name for each in series] == ["ssp", "ssp #2", "ssp #2", "ssp #3"]
    assert [each.label for each in series] == ["ssp (seed 1)", "ssp (seed 2) #2", "ssp (seed 1) #2", "ssp (seed 1) #3"]
    assert len({each.place for each in series}) == 3


def test_another_number_of_workers_is_another_name() -> None:
    series = series_of([plain("ssp", 1.0, 1, [], workers=4), plain("ssp", 1.0, 1, [], workers=8, seed=1)])
    assert [one.name for one in series] == ["ssp (4 workers)", "ssp (8 workers)"]


def test_a_baseline_of_one_worker_is_named_once_whatever_its_seeds() -> None:
    series = series_of([outcome(system, steps=5, seed=seed) for system in ("single", "ssp") for seed in (1, 2)])
    assert circumstances(series) == "16 workers (single: 1) over slow, seeds 1, 2"
