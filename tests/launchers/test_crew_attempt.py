"""An attempt with a crew that changes, as its driver sees it: tasks that come, are lost, and join others, without processes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged, Faulted, Stepped
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.view import View, next_name
from polyrhythm.core.processes.rendezvous.joined_crew import LOST
from polyrhythm.errors import CheckpointError, DataError, NoProgressError, PolyrhythmError, RunError, WorkerFailed
from polyrhythm.launchers import crew_attempt
from polyrhythm.launchers.crew_attempt import CrewAttempt
from polyrhythm.launchers.messages import Beginning
from polyrhythm.launchers.roster import WorkerTask

CREW = pr.Crew(2, 3)


@dataclass
class Line:
    """A connection that keeps what is sent."""

    sent: list[Message] = field(default_factory=list)

    def send_control(self, message: Message) -> None:
        self.sent.append(message)

    def beginnings(self) -> list[Beginning]:
        return [msgspec.json.decode(each.text, type=Beginning) for each in self.sent if each.topic == "begin"]

    def topics(self) -> list[str]:
        return [each.topic for each in self.sent]


@dataclass
class Tasks:
    """A roster without sockets."""

    tasks: list[WorkerTask]

    @staticmethod
    def of(count: int) -> Any:
        return Tasks([WorkerTask(rank, come(), True) for rank in range(count)])


def come() -> Any:
    return Line()


class Stage:
    """An attempt, and what its workers and the engine do in it. The crew itself is a view, and goes into the next one at once."""

    def __init__(self, count: int = 3, crew: pr.Crew = CREW, alone: bool = True) -> None:
        self.roster = Tasks.of(count)
        self.attempt = CrewAttempt(self.roster, 1, crew, alone)
        self.view = View.of([worker(rank) for rank in range(count)])
        self.most = crew.most
        self.lost: dict[int, WorkerFailed] = {}

    def task(self, rank: int) -> WorkerTask:
        found: WorkerTask = self.roster.tasks[rank]
        return found

    def line(self, rank: int) -> Line:
        return self.task(rank).link  # type: ignore[return-value]

    def enter(self, rank: int, name: str) -> None:
        self.attempt.received(self.task(rank), Message("entered", text=name))

    def found(self) -> None:
        """All enter, those of higher ranks first: names are given in the order in which they come."""
        self.attempt.received(self.task(0), Message("door", (7.0,), "10.0.0.1"))
        for rank in reversed(range(len(self.roster.tasks))):
            self.enter(rank, worker(rank))

    def change(self, view: View) -> None:
        before, self.view = self.view, view
        joined = tuple(name for name in view.members if name not in before.members)
        left = tuple(name for name in before.members if name not in view.members)
        for _ in view.members:  # each of them records it
            self.attempt.admits(CrewChanged(1.0, view.first, view.epoch, view.members, joined, left))

    def lose(self, rank: int) -> None:
        task = self.task(rank)
        member = task.member
        why = self.lost[rank] = WorkerFailed(task.worker, "killed by signal 9 (SIGKILL)")
        if self.attempt.takes_part(task):
            self.attempt.conclude(task, why)
        self.attempt.fell(task)
        task.link, task.registered = None, False
        if self.view.present(member) and self.view.size > 1:
            self.change(self.view.without(member))

    def replace(self) -> list[int]:
        """The engine starts again what it may, and these tasks come."""
        ranks = self.attempt.replaceable(self.lost)
        for rank in ranks:
            del self.lost[rank]
            self.arrive(rank)
        return ranks

    def arrive(self, rank: int) -> None:
        self.task(rank).link, self.task(rank).registered = come(), True
        self.attempt.came(self.task(rank))
        self.attempt.look()

    def admit(self, rank: int) -> str:
        """A newcomer enters, and is admitted."""
        name = next_name(self.view, self.most)
        self.enter(rank, name)
        self.change(self.view.including(name))
        return name

    def fail(self, rank: int, problem: PolyrhythmError) -> None:
        self.attempt.conclude(self.task(rank), problem)

    def end(self) -> None:
        """All members end well; the first has the result."""
        for rank in list(range(len(self.roster.tasks))):
            task = self.task(rank)
            if self.view.present(task.member) and self.attempt.takes_part(task):
                result: dict[str, Message | None] = {task.member: Message("result", (9.0, 9.0, 0.0))}
                self.attempt.conclude(task, Ending(result, first=self.view.first))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_attempt, "_AGAIN_SECONDS", -1.0)


def test_one_begins_with_all_that_are_there_and_the_others_get_its_door() -> None:
    stage = Stage()
    assert [each.founders for rank in range(3) for each in stage.line(rank).beginnings()] == [3, 0, 0]
    stage.found()
    assert all(stage.line(rank).topics() == ["begin", "door"] for rank in range(3))


def test_a_lost_worker_is_replaced_and_the_others_do_not_begin_again() -> None:
    stage = Stage()
    stage.found()
    stage.lose(1)
    assert not stage.attempt.over
    assert stage.replace() == [1]
    assert stage.line(1).topics() == ["begin", "door"]
    assert stage.admit(1) == "worker/4"
    stage.end()
    assert stage.attempt.over
    assert stage.attempt.ending is not None
    assert (stage.attempt.ending.first, stage.attempt.ending.lost) == ("worker/0", ["worker/1"])
    assert len(stage.line(0).beginnings()) == len(stage.line(2).beginnings()) == 1


def test_the_result_is_that_of_the_first_of_the_last_view() -> None:
    stage = Stage()
    stage.found()
    stage.lose(0)
    stage.attempt.received(stage.task(1), Message("door", (8.0,), "10.0.0.2"))
    stage.replace()
    assert [each.text for each in stage.line(0).sent if each.topic == "door"] == ["10.0.0.2"]
    stage.admit(0)
    stage.end()
    assert stage.attempt.ending is not None
    assert stage.attempt.ending.first == "worker/1"


def test_what_lost_workers_had_counted_is_in_the_result() -> None:
    stage = Stage()
    stage.found()
    stage.attempt.admits(Stepped(1.0, "worker/2", 5, 20, 0))
    stage.lose(2)
    stage.end()
    assert stage.attempt.ending is not None
    assert stage.attempt.ending.results["worker/2"] == Message("result", (5.0, 20.0, 0.0))


@pytest.mark.parametrize(("crew", "alone"), [(pr.Crew(2, 3, replace=False), True), (CREW, False)], ids=["by the crew", "by the engine"])
def test_nobody_is_started_where_that_is_not_wanted_or_cannot_be(crew: pr.Crew, alone: bool) -> None:
    stage = Stage(crew=crew, alone=alone)
    stage.found()
    stage.lose(1)
    assert stage.replace() == []
    stage.end()
    assert stage.attempt.ending is not None


def test_a_task_that_its_engine_starts_unasked_waits_where_the_crew_replaces_nobody() -> None:
    stage = Stage(crew=pr.Crew(2, 3, replace=False))
    stage.found()
    stage.lose(1)
    stage.arrive(1)
    assert stage.line(1).topics() == []


def test_one_that_comes_late_joins_where_nobody_is_replaced() -> None:
    stage = Stage(2, crew=pr.Crew(2, 3, replace=False))
    stage.roster.tasks.append(WorkerTask(2))
    stage.found()
    stage.arrive(2)
    assert [each.founders for each in stage.line(2).beginnings()] == [0]


def test_after_three_tasks_that_fell_before_they_were_admitted_no_more_are_started() -> None:
    stage = Stage()
    stage.found()
    stage.lose(1)
    for _ in range(3):
        assert stage.replace() == [1]
        stage.lose(1)
    assert stage.replace() == []
    stage.end()
    assert stage.attempt.ending is not None


def test_three_newcomers_in_succession_that_fail_before_their_first_step_end_the_run() -> None:
    stage = Stage()
    stage.found()
    for number in range(5):
        stage.lose(1) if not number else stage.attempt.look()
        stage.replace()
        name = stage.admit(1)
        assert stage.attempt.fatal is None
        if number == 1:
            stage.attempt.admits(Stepped(1.0, name, 30, 20, 0))
            stage.fail(1, WorkerFailed(name, "its connection was lost"))
        else:
            stage.fail(1, WorkerFailed(name, "KeyError: 'x'", "its traceback"))
        stage.change(stage.view.without(name))
    assert isinstance(stage.attempt.fatal, NoProgressError)


def test_a_newcomer_that_was_admitted_lets_others_be_started_again() -> None:
    stage = Stage()
    stage.found()
    for _ in range(9):
        stage.lose(1)
        assert stage.replace() == [1]
        stage.admit(1)
    assert stage.view.members[-1] == "worker/28"


def test_one_that_was_not_let_in_calls_again() -> None:
    stage = Stage()
    stage.found()
    stage.lose(1)
    stage.replace()
    for _ in range(5):
        stage.fail(1, RunError("The run has 3 workers, and no more are allowed"))
        stage.attempt.look()
    assert len(stage.line(1).beginnings()) == 6


def test_one_whose_fault_it_is_does_not_call_again(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    stage.found()
    stage.lose(1)
    stage.replace()
    stage.fail(1, CheckpointError("No checkpoint can be written in /data"))
    stage.attempt.look()
    assert len(stage.line(1).beginnings()) == 1
    assert "continues without worker/1, which cannot join it: No checkpoint" in capsys.readouterr().err


def test_a_worker_that_the_others_have_dropped_joins_them_again() -> None:
    stage = Stage()
    stage.found()
    stage.fail(2, WorkerFailed("worker/2", "the others continue without it: it was stopped, or nothing came from it"))
    stage.change(stage.view.without("worker/2"))
    stage.attempt.look()
    assert stage.admit(2) == "worker/5"


def test_when_all_are_lost_the_attempt_is_over_and_the_last_loss_is_the_cause() -> None:
    stage = Stage()
    stage.found()
    for rank in (1, 0, 2):
        assert not stage.attempt.over
        stage.lose(rank)
    assert stage.attempt.over
    assert "worker/2 failed: killed" in str(stage.attempt.cause(stage.lost))


def test_a_newcomer_that_waits_when_all_are_lost_is_notified_that_it_is_in_vain() -> None:
    stage = Stage()
    stage.found()
    stage.lose(1)
    stage.replace()
    stage.lose(0)
    stage.lose(2)
    assert not stage.attempt.over
    assert stage.line(1).topics() == ["begin", "door", "over"]
    stage.fail(1, RunError("The attempt is over"))
    stage.attempt.look()
    assert stage.attempt.over


def test_an_error_of_the_training_function_is_the_cause_also_where_others_report_it_first() -> None:
    stage = Stage()
    stage.found()
    stage.fail(1, RunError("its connection was closed"))
    stage.fail(2, DataError("no such column"))
    stage.fail(0, WorkerFailed("worker/2", "its connection was lost"))
    assert str(stage.attempt.cause({})) == "no such column"


def test_where_one_falls_before_the_run_has_begun_all_are_notified() -> None:
    stage = Stage()
    stage.lose(2)
    assert all(stage.line(rank).topics() == ["begin", "over"] for rank in (0, 1))
    stage.fail(0, RunError("The attempt is over"))
    stage.fail(1, RunError("The attempt is over"))
    assert stage.attempt.over
    assert stage.attempt.ending is None


def test_each_change_is_recorded_once_and_losses_as_the_engine_reports_them() -> None:
    attempt = Stage().attempt
    change = CrewChanged(1.0, "worker/0", 1, ("worker/0", "worker/2"), (), ("worker/1",))
    assert [attempt.admits(change) for _ in range(3)] == [True, False, False]
    assert not attempt.admits(Faulted(1.0, "worker/1", LOST))
    assert [attempt.admits(Faulted(1.0, "worker/1", "failed before its first step")) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_falls_and_joins_the_attempt_ends_with_a_result_while_somebody_is_left(seed: int) -> None:
    drawn = random.Random(seed)
    stage = Stage(4, pr.Crew(1, 4))
    stage.found()
    for _ in range(30):
        members = [rank for rank in range(4) if stage.view.present(stage.task(rank).member)]
        waiting = [rank for rank in range(4) if stage.attempt.takes_part(stage.task(rank)) and rank not in members]
        deeds = ["replace", *(["lose"] if len(members) > 1 else []), *(["admit", "refuse", "fall"] if waiting else [])]
        match drawn.choice(deeds):
            case "lose":
                stage.lose(drawn.choice(members))
            case "replace":
                stage.replace()
                stage.attempt.look()
            case "admit":
                stage.admit(drawn.choice(waiting))
            case "refuse":
                stage.fail(drawn.choice(waiting), RunError("not now"))
            case "fall":
                stage.lose(drawn.choice(waiting))
        assert not stage.attempt.over
        assert all(task.link is None or task.link.beginnings() for task in stage.roster.tasks)  # whoever is there takes part
    stage.end()
    assert stage.attempt.over
    assert stage.attempt.ending is not None
    assert stage.attempt.ending.first == stage.view.first
