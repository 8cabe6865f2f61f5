"""What a plan says of workers that are lost or join: measured in short runs, and predicted with interruptions."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware.faults import Trace
from polyrhythm.tools.planner.answer import CrewRisk
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.crew_runs import FIRST, NEWCOMER, WORKER, standstill
from polyrhythm.tools.planner.interruptions import Interruptions, Standstills
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.planner import Planner

from .jobs import findings, planner

TIMES = st.floats(0.1, 1e4)


def trained(system: str) -> tuple[Planner, Candidate]:
    made, candidate = planner(findings((system,), (3,)), 60.0), Candidate(system, 3)
    made.search.make([(candidate, 0, 16, math.inf), (ALONE, 0, 16, math.inf)], 1.0)
    return made, candidate


def risk(made: Planner, candidate: Candidate, given: Interruptions | None = None) -> CrewRisk:
    found = made.outlook.crew(candidate, 10.0, given)
    assert found is not None
    return found


def test_standstills_are_by_formula_until_short_runs_have_measured_them() -> None:
    made, candidate = trained("allreduce")
    formula = risk(made, candidate)
    made.outlook.change_crews([candidate, ALONE])
    measured = risk(made, candidate)
    assert formula.measured == []
    assert sorted(measured.measured) == sorted([WORKER, FIRST, NEWCOMER])
    assert formula.after == measured.after == "the others re-form"
    for found in (measured.worker, measured.first):
        assert found is not None
        assert 0 < found < 2 * (formula.worker or 0.0)
    assert 0 < (measured.newcomer or 0.0) < 1.0


def test_where_the_others_continue_only_the_loss_of_the_first_makes_them_wait() -> None:
    made, candidate = trained("easgd")
    formula = risk(made, candidate, Interruptions(0.0))
    assert (formula.worker, formula.redone, formula.interrupted) == (0.0, "nothing", 10.0)
    assert (formula.first or 0.0) > 0


def test_one_machine_alone_begins_anew_after_each_loss() -> None:
    made, _ = trained("allreduce")
    alone = risk(made, ALONE, Interruptions(360.0))
    assert alone.worker is None
    assert alone.interrupted == pytest.approx(10 * math.expm1(1))


def test_a_standstill_is_what_a_step_took_longer_than_before() -> None:
    steps = [Stepped(time, "worker/0", place, 0, 0) for place, time in enumerate((1.0, 2.0, 3.5, 4.5, 8.0, 9.0))]
    assert standstill(steps, 4.6, 4.6, math.inf) == 2.0
    assert standstill(steps, 4.6, 8.5, math.inf) == 0.0
    assert standstill(steps, 4.6, 9.5, math.inf) is None


@given(TIMES, st.integers(2, 64), st.floats(0, 60), st.floats(0, 60), st.floats(0, 5))
def test_more_interruptions_never_make_it_faster(whole: float, workers: int, lost: float, newcomer: float, rate: float) -> None:
    crew = Standstills(lost, newcomer)
    times = [Interruptions(each).seconds(whole, workers, crew) for each in (0.0, rate, 2 * rate)]
    assert times[0] == whole
    assert times == sorted(times)


def test_under_a_trace_training_is_as_fast_as_there_are_workers(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"at": 10, "kind": "crash", "count": 2}\n{"at": 30, "kind": "join", "count": 2}\n{"at": 500, "kind": "leave"}\n')
    seconds = Interruptions.of(path).seconds
    assert seconds(5.0, 4, Standstills(1.0, 2.0)) == 5.0
    assert seconds(20.0, 4, Standstills(0.0, 0.0)) == 30.0
    assert seconds(40.0, 4, Standstills(0.0, 0.0)) == 50.0
    assert seconds(40.0, 4, Standstills(1.0, 2.0)) == pytest.approx(10 + 1 + 19 + 2 + (40 - 10 - 9.5))
    assert seconds(40.0, 4, Standstills(1.0, 2.0, 0.5)) == pytest.approx(53.0)


def test_interruptions_are_a_rate_or_a_trace_and_nothing_else() -> None:
    assert Interruptions.of("0.5") == Interruptions(0.5)
    assert Interruptions.of("spot-calm") == Interruptions(trace=Trace("spot-calm"))
    with pytest.raises(UnknownNameError):
        PlanRequest("loss=1", interruptions="spot-clam")
    with pytest.raises(CompositionError, match="no rate"):
        PlanRequest("loss=1", interruptions=-1.0)
