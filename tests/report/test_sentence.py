"""The sentence is true, also where there is nothing to win."""

from __future__ import annotations

import math

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.sentence import sentence

from .scenes import failed, outcome, plain

GOAL = Target("accuracy", 0.9)
SLOW = plain("allreduce", 20.0, 5000, [(5.0, 1000, 0.5), (10.0, 4000, 0.91), (20.0, 5000, 0.95)])
FAST = plain("ssp", 8.0, 3000, [(1.0, 500, 0.6), (5.0, 2000, 0.92), (8.0, 3000, 0.93)])
THIN = plain("strom", 12.0, 400, [(6.0, 200, 0.9), (12.0, 400, 0.94)])
WEAK = plain("easgd", 9.0, 300, [(9.0, 300, 0.7)])


def test_it_names_the_first_at_the_target_and_the_factor_against_allreduce() -> None:
    text = sentence([SLOW, FAST, THIN], GOAL)
    assert "ssp reached accuracy 0.9 first, after 5 s of virtual time, 2.0 times as fast as allreduce." in text
    assert "strom sent the fewest bytes, 200 B up to there; allreduce sent 20 times as many." in text


def test_it_names_those_that_did_not_reach_the_target() -> None:
    assert sentence([SLOW, FAST, WEAK], GOAL).endswith("easgd did not reach it.")


def test_it_states_when_only_one_reached_the_target() -> None:
    text = sentence([FAST, WEAK], GOAL)
    assert text == "Only ssp reached accuracy 0.9, after 5 s of virtual time, when 2 kB had been sent. easgd did not reach it."


def test_it_states_when_no_run_reached_the_target_and_who_came_closest() -> None:
    text = sentence([FAST, THIN, WEAK], Target("accuracy", 0.99))
    assert text == "None of the 3 runs reached accuracy 0.99; strom came closest, with 0.94."


def test_it_states_when_no_run_reported_the_target() -> None:
    assert sentence([FAST, THIN], Target("f1", 0.5)) == "None of the 2 runs reported f1, so none reached f1 0.5."


def test_without_a_target_it_names_the_best_the_soonest_and_the_thriftiest() -> None:
    text = sentence([SLOW, FAST, THIN])
    assert "allreduce ended with the highest accuracy, 0.95." in text
    assert "ssp finished first, after 8 s of virtual time, 2.5 times as fast as allreduce." in text
    assert "strom sent the fewest bytes, 400 B in all; allreduce sent 12 times as many." in text


def test_it_warns_where_the_runs_did_not_use_equally_many_samples() -> None:
    more = plain("ssp", 8.0, 3000, [(8.0, 3000, 0.93)], samples=999)
    assert "did not all use the same number of samples" in sentence([SLOW, more])
    assert "samples" not in sentence([SLOW, FAST])


def test_all_failed() -> None:
    assert sentence([failed("ssp"), failed("tree")], GOAL) == "All 2 runs failed: ssp and tree."


def test_one_run_that_failed_reports_why_without_its_traceback() -> None:
    assert sentence([failed("ssp", "worker/1 failed: killed\n\nTraceback")]) == "ssp: worker/1 failed: killed."


def test_a_failed_run_is_not_compared_even_if_it_was_first() -> None:
    broken = plain("tree", 1.0, 1, [(0.1, 1, 0.99)], error="worker/1 was killed.")
    text = sentence([SLOW, FAST, broken], GOAL)
    assert text.startswith("ssp reached accuracy 0.9 first")
    assert text.endswith("tree failed and is not compared.")


def test_a_single_run_is_described_not_compared() -> None:
    assert sentence([FAST]) == "ssp ended with accuracy 0.93 after 8 s of virtual time and 3 kB sent."
    assert sentence([FAST], GOAL) == "ssp reached accuracy 0.9 after 5 s of virtual time, when 2 kB had been sent."
    missed = sentence([WEAK], GOAL)
    assert missed == "easgd did not reach accuracy 0.9; it ended with accuracy 0.7 after 9 s of virtual time and 300 B sent."


def test_ties_have_no_winner() -> None:
    twin = plain("tree", 20.0, 5000, [(5.0, 1000, 0.5), (10.0, 4000, 0.91), (20.0, 5000, 0.95)])
    text = sentence([SLOW, twin], GOAL)
    assert text == (
        "allreduce and tree reached accuracy 0.9 at the same time, after 10 s of virtual time. "
        "allreduce and tree sent the same, 4 kB up to there."
    )
    assert sentence([SLOW, twin]).startswith("All 2 runs ended with accuracy 0.95. allreduce and tree finished at the same time")


def test_two_may_be_first_together() -> None:
    twin = plain("tree", 8.0, 3000, [(5.0, 2000, 0.92)])
    assert "ssp and tree reached accuracy 0.9 first" in sentence([SLOW, FAST, twin], GOAL)


def test_a_run_that_sends_nothing_wins_no_prize_for_it_and_gives_no_factor() -> None:
    alone = plain("single", 30.0, 0, [(25.0, 0, 0.95)], workers=1)
    text = sentence([alone, FAST, THIN], GOAL)
    assert "single sent nothing; of the others, strom sent the fewest bytes, 200 B up to there." in text
    assert "5.0 times as fast as single" in text


def test_bytes_that_the_runtime_had_not_counted_yet_are_not_called_nothing() -> None:
    uncounted = plain("tree", 9.0, 800, [(7.0, 0, 0.95)])
    text = sentence([SLOW, uncounted], GOAL)
    assert "fewest" not in text
    assert "nothing" not in text
    assert "sent" not in sentence([uncounted], GOAL)


def test_no_factor_where_times_are_practically_the_same() -> None:
    near = plain("ssp", 19.9, 5000, [(9.9, 4000, 0.91)])
    assert "times as fast" not in sentence([SLOW, near], GOAL)


def test_runs_without_metrics_are_compared_by_time_and_bytes() -> None:
    text = sentence([plain("allreduce", 20.0, 500, []), plain("ssp", 10.0, 600, [])])
    assert text.startswith("ssp finished first, after 10 s of virtual time, 2.0 times as fast as allreduce.")


def test_real_and_virtual_runs_are_distinguished_and_never_compared() -> None:
    text = sentence([outcome("ssp", on="processes", steps=5), outcome("allreduce", steps=5)])
    assert text.startswith("On real processes: ssp ended")
    assert "In virtual time: allreduce ended" in text
    assert "times as fast" not in text


def test_the_same_system_twice_is_distinguished_by_what_differs() -> None:
    text = sentence([outcome("ssp", workers=4, steps=5), outcome("ssp", workers=8, steps=5)])
    assert "ssp (4 workers)" in text or "ssp (8 workers)" in text


def seeds(system: str, *times: float, nbytes: int = 1000) -> list[Outcome]:
    """Runs of one system that reach the goal after so many seconds each, the seeds 0, 1, ...; infinity is never."""
    ends = [plain(system, 20.0, nbytes, [(min(time, 20.0), nbytes // 2, 0.95 if time < 20 else 0.5)]) for time in times]
    for seed, end in enumerate(ends):
        end.summary.seed = seed
    return ends


def test_of_several_seeds_it_shows_the_medians() -> None:
    text = sentence(seeds("allreduce", 10.0, 8.0, 9.0) + seeds("ssp", 4.0, 3.0, 5.0, nbytes=500), GOAL)
    assert text.startswith("By the medians of 3 seeds: ssp reached accuracy 0.9 first, after 4 s of virtual time, 2.2 times as fast as")
    assert "overlap" not in text
    assert "allreduce sent 2.0 times as many" in text


def test_it_states_where_another_seed_could_change_the_order() -> None:
    text = sentence(seeds("allreduce", 10.0, 4.5, 9.0) + seeds("ssp", 4.0, 3.0, 5.0) + seeds("tree", 12.0, 12.0, 12.0), GOAL)
    assert "Over the seeds the times to accuracy 0.9 of ssp and allreduce overlap, so that their order may be chance." in text


def test_a_target_that_few_seeds_reach_is_no_time_of_the_system() -> None:
    text = sentence(seeds("allreduce", 10.0, 8.0, 9.0) + seeds("ssp", 4.0, math.inf, math.inf), GOAL)
    assert "Only allreduce reached accuracy 0.9, after 9 s" in text
    assert "ssp reached it with 1 of 3 seeds." in text
    assert "No system reached accuracy 0.9, though ssp did with some of the seeds." in sentence(
        seeds("ssp", 4.0, math.inf, math.inf) + seeds("tree", math.inf, math.inf), GOAL
    )


def test_a_seed_that_failed_is_left_out_and_reported() -> None:
    runs = seeds("ssp", 4.0, 3.0, 5.0) + seeds("tree", 12.0, 12.0, 12.0)
    runs[1].summary.error = "worker/1 failed."
    assert "1 of the 3 runs of ssp failed." in sentence(runs, GOAL)


def test_there_may_be_nothing_to_compare() -> None:
    assert sentence([]) == "There are no runs to compare."
