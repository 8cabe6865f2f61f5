"""The driver of a run on an engine, with tasks that follow a script."""

import time

import pytest
from scripted import (
    Scripted,
    dies,
    ends,
    falls_after_failing,
    falls_before,
    is_replaced,
    job,
    leads,
    raises,
    recorded,
    sleeps,
    survives,
    survives_late,
    vanishes,
    waits_for_others,
)

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Faulted, Reported, Restarted
from polyrhythm.errors import CompositionError, DataError, PolyrhythmError, RunError, TamperedError, WorkerFailed
from polyrhythm.launchers.driver import drive
from polyrhythm.launchers.protocol import Loss

PEER_LOST = WorkerFailed("worker/1", "its connections were lost before it had finished")


def raised(error: BaseException) -> BaseException:
    """`error` with a traceback, as of a training function."""
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_run_ends_when_all_tasks_have_ended_with_the_totals_of_worker_0() -> None:
    engine, (events, record) = Scripted([[ends], [ends], [ends]]), recorded()
    ending = drive(engine, job(3), record)
    assert (ending.bytes_sent, ending.messages_sent, ending.seconds) == (10, 2, pytest.approx(1.5, abs=0.01))
    assert ending.results["worker/0"] is not None
    assert ending.results["worker/0"].numbers == (1.0, 2.0)
    assert sorted(event.actor for event in events) == ["worker/0", "worker/1", "worker/2"]


def test_every_attempt_has_a_store_of_its_own_and_later_ones_continue() -> None:
    engine = Scripted([[survives(PEER_LOST)], [dies, ends]])
    drive(engine, job(2), recorded()[1])
    first, second = (next(seen for name, seen in engine.seen if seen.attempt == attempt) for attempt in (1, 2))
    assert (first.continued, second.continued) == (False, True)
    assert first.port != second.port


def test_a_lost_task_is_started_again_alone_and_the_run_continues(capsys: pytest.CaptureFixture[str]) -> None:
    engine, (events, record) = Scripted([[survives(PEER_LOST)], [dies, ends]]), recorded()
    drive(engine, job(2), record)
    assert engine.started == [0, 1, 1]
    assert [event.what for event in events if isinstance(event, Faulted)] == ["killed by signal 9 (SIGKILL)"]
    assert "worker/1 failed: killed by signal 9 (SIGKILL): the run begins anew" in capsys.readouterr().err
    (again,) = [event for event in events if isinstance(event, Restarted)]
    assert (again.actor, again.reason) == ("worker/1", "worker/1 failed: killed by signal 9 (SIGKILL)")


def test_the_bytes_and_seconds_of_an_attempt_that_failed_are_of_the_run() -> None:
    engine, (events, record) = Scripted([[survives(PEER_LOST)], [dies, ends]]), recorded()
    ending = drive(engine, job(2), record)
    assert ending.bytes_sent == 10 + 7
    times = [event.time for event in events if isinstance(event, Reported)]
    assert times == sorted(times)
    assert ending.seconds >= times[-1]


def test_a_task_whose_connection_ends_is_lost_though_its_engine_does_not_report_it() -> None:
    engine, (events, record) = Scripted([[survives(PEER_LOST)], [vanishes, ends]]), recorded()
    drive(engine, job(2), record)
    assert [event.what for event in events if isinstance(event, Faulted)] == ["its connection to the driver was lost"]


def test_after_the_last_restart_the_loss_is_the_error() -> None:
    engine = Scripted([[raises(PEER_LOST)], [dies, dies]], restarts=1)
    with pytest.raises(WorkerFailed, match=r"worker/1 failed: killed by signal 9 \(SIGKILL\)"):
        drive(engine, job(2), recorded()[1])
    assert engine.started == [0, 1, 1]


@pytest.mark.parametrize(
    "error",
    [raised(KeyError("column")), DataError("no data"), TamperedError("no data: changed on the way")],
    ids=["of the function", "of the data", "of an attacker"],
)
def test_what_another_attempt_would_meet_again_is_not_tried_again(error: BaseException) -> None:
    engine = Scripted([[raises(WorkerFailed("worker/1", "it failed", "its traceback"))], [raises(error)]])
    with pytest.raises(PolyrhythmError, match=r"column|no data"):
        drive(engine, job(2), recorded()[1])
    assert engine.started == [0, 1]


def test_a_broken_connection_between_workers_is_tried_again() -> None:
    engine = Scripted([[survives(RunError("the line was cut"))], [survives(RunError("the line was cut"))]])
    drive(engine, job(2), recorded()[1])


def test_tasks_that_do_not_come_are_named() -> None:
    engine = Scripted([[raises(PEER_LOST)], [sleeps], [sleeps]], startup=0.3)
    with pytest.raises(RunError, match=r"worker/1, worker/2 did not reach the driver at 127.0.0.1:\d+ within 0.3 seconds"):
        drive(engine, job(3), recorded()[1])


def test_an_engine_that_cannot_start_any_task_is_not_tried_again() -> None:
    engine = Scripted([[sleeps], [sleeps]], losses_to_come=[Loss(None, "srun ended with exit code 1")])
    with pytest.raises(RunError, match="No worker could be started: srun ended with exit code 1"):
        drive(engine, job(2), recorded()[1])
    assert engine.started == [0, 1]


def test_a_task_that_its_engine_starts_again_before_its_loss_was_noticed_is_lost_nevertheless() -> None:
    engine, (events, record) = Scripted([[survives(PEER_LOST)], [is_replaced, ends]]), recorded()
    drive(engine, job(2), record)
    assert [event.what for event in events if isinstance(event, Faulted)] == ["its connection to the driver was lost"]


def test_a_task_that_falls_before_it_comes_is_started_again() -> None:
    engine = Scripted([[survives(PEER_LOST)], [dies, falls_before, ends]])
    drive(engine, job(2), recorded()[1])
    assert engine.started == [0, 1, 1, 1]


def test_a_task_that_failed_and_then_fell_is_started_again_too() -> None:
    engine = Scripted([[survives_late(PEER_LOST, 3.0)], [falls_after_failing(RunError("the line was cut")), ends]])
    drive(engine, job(2), recorded()[1])
    assert engine.started == [0, 1, 1]


def test_a_loss_after_the_end_of_worker_0_changes_nothing() -> None:
    engine = Scripted([[ends], [dies]])
    assert drive(engine, job(2), recorded()[1]).seconds > 0
    assert engine.started == [0, 1]


def test_those_who_join_do_not_wait_for_one_who_has_failed_before() -> None:
    engine = Scripted([[waits_for_others], [raises(raised(ModuleNotFoundError("No module named 'model'")))]])
    began = time.monotonic()
    with pytest.raises(PolyrhythmError, match="No module named 'model'"):
        drive(engine, job(2), recorded()[1])
    assert time.monotonic() - began < 20


def test_the_tasks_of_a_crew_that_changes_find_the_door_of_the_one_who_begins() -> None:
    engine = Scripted([[leads], [leads], [leads]])
    ending = drive(engine, job(3, Crew(2, 3)), recorded()[1])
    assert (engine.founders, engine.doors) == (3, [("127.0.0.1", 7)] * 3)
    assert ending.results["worker/0"] is not None


def test_a_crew_that_changes_begins_without_those_who_do_not_come_if_it_has_its_least() -> None:
    engine = Scripted([[leads], [sleeps], [leads]], startup=0.5, missing=1)
    drive(engine, job(3, Crew(2, 3)), recorded()[1])
    assert engine.founders == 2


def test_a_crew_that_has_not_its_least_does_not_begin() -> None:
    with pytest.raises(RunError, match="worker/1, worker/2 did not reach the driver"):
        drive(Scripted([[leads], [sleeps], [sleeps]], startup=0.3), job(3, Crew(2, 3)), recorded()[1])


def test_an_address_that_is_not_of_this_host_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"cannot listen at '203.0.113.7' .*: give the engine an address of this host"):
        drive(Scripted([], address="203.0.113.7"), job(2), recorded()[1])
