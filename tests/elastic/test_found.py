"""Schedules that `benchmarks/schedules.py` has found, each the shortest that failed, and the laws of a run that it checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.errors import StateLostError, WorkerFailed
from polyrhythm.hardware.faults import Crash, Disconnect, Exit, Fault, HoldGIL, Join, Leave, Segfault, Stall

Crew = pr.Crew
KEPT = Crew(1, 4, replace=False)

FOUND: list[tuple[str, Any, str, tuple[Fault, ...], dict[str, Any]]] = [
    # who is drawn for a round changes with the crew, and those who were not are ahead
    ("fedavg", Crew(3, 4, replace=False), "plain", (Crash("worker/3", at=0.004), Join(at=0.008)), {}),
    ("fedprox", Crew(2, 4), "counted", (Crash("worker/0", at=0.001),), {}),
    ("fedadam", Crew(4, 5), "plain", (Leave("worker/4", at=0.00343, notice=0.002),), {}),
    ("fedavg", KEPT, "plain", (Crash("worker/3", step=1),), {"detection": 2.5}),
    ("fedavg", Crew(1, 5), "range", (Crash("worker/4", step=1),), {}),
    # a notice to a program that did not wait for one was taken for a later one
    ("fedprox", Crew(2, 5), "plain", (Leave("worker/3", notice=0.001, step=1),), {}),
    # names of newcomers that were dismissed came again
    ("fedprox", Crew(2, 5), "range", (Exit("worker/1", 0, step=10), Crash("worker/3", at=0.006)), {}),
    # an exchange of the ring of samples was interrupted inside of its iterator; nobody followed losses after a change
    ("gossipgrad", Crew(1, 4), "evaluated", (Segfault("worker/0", step=1),), {}),
    ("gossipgrad", Crew(3, 4), "counted", (Crash("worker/2", at=0.002), Leave("worker/3", notice=1.0, step=2)), {"detection": 0.002}),
    # who is interrupted in a step that others have completed has no more steps than they
    ("gossipgrad", KEPT, "counted", (Segfault("worker/0", step=14),), {}),
    ("parallax", Crew(1, 5, replace=False), "plain", (Crash("worker/0", at=0.006359),), {}),
    ("parallax", Crew(1, 5, replace=False), "plain", (Crash("worker/1", at=0.003885), Crash("worker/4", step=1)), {"detection": 0.001788}),
    ("tree", Crew(1, 5, replace=False), "two models", (Segfault("worker/4", step=6), Segfault("worker/3", step=13)), {}),
    # a loss while a notice is being followed: some have begun another deal of the data, others not
    ("poseidon", Crew(1, 5), "counted", (Leave("worker/4", at=0.004835, notice=0.002), Crash("worker/1", at=0.005257)), {}),
    # who leaves is lost at the end of its notice, before it has handed its state over
    (
        "noloco",
        Crew(4, 5, replace=False),
        "plain",
        (Leave("worker/1", notice=0.00174, step=1), Stall("worker/3", duration=0.001209, step=1)),
        {"detection": 0.000396, "startup": 0.001729},
    ),
    # the first of a broadcast is lost in it
    ("allreduce", Crew(3, 4), "calls", (Crash("worker/0", at=0.005692),), {}),
    # a share that a lost worker had not begun, a step of several that nobody had received
    ("slowmo", Crew(4, 5, replace=False), "plain", (Crash("worker/2", step=1),), {"detection": 0.0015}),
    ("ssp", Crew(2, 4, start=2, wait=0.0), "counted", (Join(at=0.002), HoldGIL("worker/0", at=0.003, duration=0.002)), {}),
    # a group that nobody was in at first has no server
    ("rudra-adv", Crew(2, 5, start=2, wait=0.0), "evaluated", (Join(step=1),), {"detection": 0.002845}),
    # workers were given to servers that did not know what they had of them, and a relay's new push was taken for the one before
    ("rudra-adv-star", Crew(1, 4), "counted", (Segfault("worker/1", at=0.003),), {}),
    ("yu", Crew(2, 5, batch="global"), "evaluated", (Leave("worker/1", at=0.0, notice=6.5e-05), Exit("worker/2", 0, at=0.01)), {}),
    # weights of few bits were taken over in other units
    ("buckwild", Crew(2, 4, start=2, wait=0.0), "counted", (Crash("worker/1", at=0.01),), {}),
    # the sum that was under way at a loss was lost for all
    ("pipe-sgd", KEPT, "counted", (Leave("worker/1", at=0.010113, notice=0.000292),), {}),
    # the mean of five workers moved the weights of those who used it later by five quarters
    ("pipe-sgd", Crew(2, 5, batch="global"), "two models", (Crash("worker/2", step=12),), {"seed": 3016, "startup": 0.001315}),
    # servers on a ring: what had come and was not merged, lost servers, and copies that had become the only ones, in another view
    ("li-ps", Crew(2, 5, batch="global"), "counted", (Crash("worker/0", at=0.0), Crash("worker/1", at=0.002552)), {}),
    ("li-ps", KEPT, "counted", (Crash("worker/2", step=2),), {"detection": 0.0026}),
    ("li-ps", Crew(2, 4, start=2, wait=0.0), "range", (Join(step=1), Crash("server/1", at=0.0)), {"detection": 0.001294}),
    ("li-ps", KEPT, "counted", (Crash("server/1", at=0.002532), Exit("worker/0", 195, at=0.00324)), {}),
    ("bigdl", KEPT, "counted", (Disconnect("worker/1", "server/0", at=0.002, duration=0.002), Crash("worker/0", at=0.003)), {}),
    # parameters changed their exchange with the number of workers
    ("poseidon", Crew(2, 4, start=2, wait=0.0), "calls", (Crash("worker/1", step=1),), {"seed": 2018, "startup": 0.002541}),
    # one that had taken no step sent what another had left, without a learning rate
    ("fedavg", Crew(4, 5, replace=False), "range", (Leave("worker/3", notice=0.001, step=1),), {"seed": 2015}),
    # a cut was given up at which some waited already
    (
        "strom",
        Crew(2, 4, batch="global"),
        "plain",
        (Disconnect("worker/1", "worker/3", duration=1.0, step=1), Crash("worker/0", at=0.01), HoldGIL("worker/0", at=0.0, duration=0.003)),
        {"seed": 2012, "startup": 0.002851},
    ),
    # a newcomer that was interrupted before it began left batches of its first deal out
    ("allreduce", Crew(1, 4, start=3, wait=0.0, replace=False), "counted", (Join(step=2), Crash("worker/1", at=0.00224)), {}),
    # one had taken a step of its own when others were interrupted in the first broadcast, and they began with what it had then
    ("diloco", Crew(1, 5, replace=False), "range", (Crash("worker/3", at=7e-06), Join(at=0.000491)), {"seed": 20063}),
    # a cut of the next view was missed by one that came from the view before
    ("local-sgd", Crew(1, 4), "plain", (Crash("worker/2", at=0.0), Exit("worker/3", 0, step=14)), {"seed": 20004}),
    (
        "sparknet",
        Crew(2, 5, batch="global"),
        "counted",
        (Segfault("worker/1", at=0.002703), Stall("worker/0", at=0.000379, duration=1.0)),
        {"seed": 20005, "detection": 0.001796},
    ),
    # one that is in the next view already took all its steps, since it waited for nobody
    ("diloco", Crew(1, 4, start=3, wait=0.0, replace=False), "counted", (Join(step=2), Crash("worker/1", at=0.0016118)), {}),
    # a worker was lost between an exchange and the averages of the optimizers' states after it
    (
        "dl4j-averaging",
        Crew(4, 5, replace=False),
        "two models",
        (Stall("worker/3", duration=0.000951, step=1), Leave("worker/3", at=0.004634, notice=0.001)),
        {},
    ),
    # one that had joined, and was then alone, did not know with how many steps its first view began
    (
        "hybrid-groups",
        Crew(2, 4, start=2, wait=0.0),
        "two models",
        (Leave("worker/1", notice=0.005, step=2), Crash("worker/0", at=0.002), Exit("worker/4", 0, step=7)),
        {},
    ),
    # who left handed its steps to one that was lost before the next exchange: nobody else had them, and the check has that now
    (
        "consgd",
        Crew(4, 5, replace=False),
        "counted",
        (Leave("worker/2", notice=1.0, step=1), Crash("worker/0", at=0.003)),
        {"detection": 0.001619},
    ),
    # a group's server sent two sums of one step, and the second was taken for the first once more
    ("rudra-adv", Crew(1, 5), "counted", (Crash("worker/2", step=2),), {}),
    # who was in a call of all workers after its step got a batch more than those who were still in the step
    ("rudra-adv", Crew(3, 4, replace=False), "calls", (Segfault("worker/2", step=1),), {}),
    (
        "dl4j-sharing",
        KEPT,
        "calls",
        (
            Leave("worker/0", at=0.003556, notice=1.0),
            Crash("worker/2", at=0.004489),
            Disconnect("worker/3", "worker/1", duration=0.001738, step=1),
        ),
        {},
    ),
]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import schedule_checks

    return schedule_checks


@pytest.mark.parametrize("number", range(len(FOUND)))
def test_a_schedule_that_was_found_holds(checks: Any, number: int) -> None:
    system, crew, way, faults, settings = *FOUND[number][:4], dict(FOUND[number][4])
    assert (
        checks.play(checks.Case(system, pr.systems.find(system), crew=crew, way=way, faults=faults, **{"seed": 0, **settings})).problem
        == ""
    )


@pytest.mark.parametrize("system", ["allreduce", "downpour", "adpsgd"])
def test_the_loss_of_all_ends_the_run_with_a_sentence(checks: Any, system: str) -> None:
    faults = tuple(Crash(f"worker/{rank}", at=0.001 * (rank + 1)) for rank in range(4))
    found = checks.play(checks.Case(system, pr.systems.find(system), 0, KEPT, "plain", faults=faults))
    assert isinstance(found.error, WorkerFailed)
    assert "0 workers are left, where at least 1 are needed" in str(found.error)


def test_the_loss_of_all_that_have_the_state_ends_the_run_with_a_sentence(checks: Any) -> None:
    crew, faults = Crew(2, 4, start=2, wait=0.0), (Crash("worker/0", at=0.005507), Exit("worker/1", 138, at=0.006142))
    found = checks.play(checks.Case("bigdl", pr.systems.find("bigdl"), 6001, crew, "counted", faults=faults))
    assert isinstance(found.error, StateLostError)
    assert "worker/4 had joined it" in str(found.error)


def test_the_last_old_worker_stays_until_a_newcomer_has_its_state(checks: Any) -> None:
    faults = (Leave("worker/1", notice=1.0, step=1), Crash("worker/0", step=1))
    found = checks.play(checks.Case("allreduce", pr.systems.find("allreduce"), 0, Crew(1, 4, start=2, wait=0.0), "plain", faults=faults))
    assert (found.problem, found.error) == ("", None)
