"""How a plan is shown: one colour for a system, one row for one worker alone, and what decides first."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from polyrhythm.tools.planner.answer import Cell, Choice, CrewRisk, PhaseMap, Plan
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.page import hues_of, write
from polyrhythm.tools.planner.table import plan_text
from polyrhythm.tools.planner.words import columns
from report.page_laws import empty_tables, fixed_colours


def choice(system: str, workers: int, seconds: float, nbytes: float = 1e6) -> Choice:
    bounds = Interval(seconds / 2, seconds, seconds * 2)
    settings: dict[str, Any] = {"lr": 0.1} if system == "single" else {}
    name = f"{system} × {workers}" + (" (lr=0.1)" if settings else "")
    return Choice(name, system, workers, {}, settings, 1, 1, bounds, nbytes, 100.0, seconds, 0.9, 0.0, 10, None, 1.0, "", "", "")


def plan(choices: list[Choice], maps: list[PhaseMap] | None = None) -> Plan:
    alone = choice("single", 1, 5.0, 0.0)
    return Plan(
        "job.py", "accuracy 0.9", "time", "slow", "this machine", [2, 4], choices, alone, [], [], maps or [], 3, 0, 1.0,
        "the time was up", [0],
        scatter=[choice("ssp", 2, 3.0, 2e6), *choices],
    )  # fmt: skip


def test_one_machine_alone_is_one_row() -> None:
    both = plan([choice("diloco", 4, 1.0), choice("single", 1, 5.0, 0.0)])
    assert both.compared is None
    assert plan_text(both).count("one machine alone (lr=0.1)") == 1
    assert "single × 1" not in plan_text(both).partition("Run it")[0].partition("───")[2]
    apart = plan([choice("diloco", 4, 1.0)])
    assert plan_text(apart).count("one machine alone (lr=0.1)") == 1


def test_what_takes_about_as_much_is_not_said_to_take_one_time_as_much() -> None:
    near = " ".join(plan_text(plan([choice("diloco", 4, 1.0), choice("ssp", 4, 1.02)]), 250).split())
    assert "the next system, ssp, takes about as much" in near
    assert " 1 times" not in near


def test_name_time_and_bytes_stand_first() -> None:
    assert columns(plan([choice("diloco", 4, 1.0)]))[:3] == ["", "to accuracy 0.9", "bytes"]


def test_a_system_has_one_hue_in_the_table_the_fronts_and_the_maps(tmp_path: Any) -> None:
    cells = [
        Cell(2, 0.1, "ssp", 1.0, 2.0),
        Cell(2, 1.0, "diloco", 1.0, 2.0),
        Cell(4, 1.0, "diloco", 1.0, None),
        Cell(4, 0.1, "tree", 1.0, None),
    ]
    given = plan(
        [choice("diloco", 4, 1.0), choice("sparknet", 2, 2.0, 1e5)], [PhaseMap("bandwidth", 1e6, ["ssp", "diloco", "tree"], cells)]
    )
    hues = hues_of(given)
    assert list(hues) == ["diloco", "sparknet", "single", "ssp", "tree"]
    assert len(set(hues.values())) == 5
    page = write(given, tmp_path / "plan.html").read_text()
    for name in ("diloco", "ssp"):
        assert f'"hue": "{hues[name]}"' in page.replace('"hue":"', '"hue": "')
    assert fixed_colours(page) == set()
    assert empty_tables(page) == []
    assert page.count(f'stroke="{hues["diloco"]}"') >= 1


def test_the_table_shows_standstills_and_a_sentence_says_which_is_first_with_interruptions() -> None:
    steady = CrewRisk(0.0, 0.5, 0.2, ["a lost worker", "a lost first worker", "a newcomer"], "the others continue", "nothing", [], "", 1.5)
    risky = CrewRisk(1.0, 1.0, None, [], "the others re-form", "one step", ["one residual"], "no state", math.inf)
    both = plan([replace(choice("diloco", 4, 1.0), crew=risky), replace(choice("easgd", 4, 1.2), crew=steady)])
    both.interruptions = "9 interruptions an hour of each worker"
    text = " ".join(plan_text(both, 250).split())
    assert "after a loss the others re-form, and stand still for 1 s; of the first worker, all stand still for 1 s (by formula)" in text
    assert "done again: one step. May be lost for good: one residual." in text
    assert "Nobody can join: no state" in text
    assert "diloco × 4 takes never by formula" not in text
    assert "With 9 interruptions an hour of each worker, diloco × 4 never comes to it; easgd × 4 comes first then, in 1.5 s." in text
    assert "+ 1 s + 1 s – never" in text
    assert "none + 500 ms + 200 ms 1.5 s" in text


def test_the_answer_says_what_was_run_and_what_was_shared_of_another_curve() -> None:
    own = replace(choice("direct", 4, 1.0), reached=3, seeds=3)
    timed, partly = replace(own, like="allreduce × 4", shared=3), replace(own, like="allreduce × 4", shared=2)
    said = {each.shared: " ".join(plan_text(plan([each]), 250).split()) for each in (own, timed, partly)}
    assert "(500 ms – 2 s, 3 seeds)" in said[0]
    assert "curve of" not in said[0]
    assert "(500 ms – 2 s, by the curve of allreduce × 4, 3 seeds)" in said[3]
    assert "It was timed for a few steps, and not run to the target: its curve is that of allreduce × 4" in said[3]
    assert "direct × 4: curve of allreduce" in said[3]
    assert "(500 ms – 2 s, 3 seeds, 2 of them by the curve of allreduce × 4)" in said[2]
    assert "It was run under 1 seed; under 2 more it has the curve of allreduce × 4" in said[2]
