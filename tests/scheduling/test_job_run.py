"""A job ends when its workers have, is tried again where they failed, and fails for good where that is in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm.cluster import ClusterJob, WorkerSlot
from polyrhythm.errors import NoProgressError
from polyrhythm.tools.scheduling.job_run import REFUSED, CarriedJob, log_of
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder


def _run(workers: int, least: int | None = None) -> CarriedJob:
    run = CarriedJob(TrainingJob(ClusterJob("j", workers=workers, min_workers=least), TrainingOrder("train.py")))
    run.begin("s", 1, ("a",), None, 0.0)
    for number in range(workers):
        run.next_worker(WorkerSlot(f"h{number}"))
    return run


def test_a_fixed_job_has_ended_when_all_workers_have(tmp_path: Path) -> None:
    run = _run(2)
    run.ended("j/1/0", 0, tmp_path)
    assert not run.settle(3, 5.0)
    run.ended("j/1/1", 0, tmp_path)
    assert run.settle(3, 6.0)
    assert (run.over, run.seconds) == ("ended", 6.0)


def test_a_crew_has_ended_when_those_that_are_left_have(tmp_path: Path) -> None:
    run = _run(3, 1)
    run.ended("j/1/0", -9, tmp_path)
    run.ended("j/1/1", 0, tmp_path)
    run.ended("j/1/2", 0, tmp_path)
    assert run.settle(3, 1.0)
    assert run.over == "ended"


def test_workers_that_failed_are_tried_again_some_times(tmp_path: Path) -> None:
    run = _run(1)
    for attempt in range(1, 4):
        run.ended(f"j/{attempt}/{attempt - 1}", 1, tmp_path)
        assert run.settle(2, 1.0) is (attempt == 3)
        run.begin("s", 1, ("a",), None, 1.0)
        run.next_worker(WorkerSlot("h"))
    assert run.over == "failed"


def test_what_cannot_be_run_is_not_tried_again_and_says_why(tmp_path: Path) -> None:
    run = _run(1)
    log = log_of(tmp_path, "j/1/0")
    log.parent.mkdir(parents=True)
    log.write_text("first\npolyrhythm: No system is called 'x'.\n\n")
    run.ended("j/1/0", 2, tmp_path)
    assert run.settle(3, 1.0)
    assert run.reason == "its worker on h0 ended with exit code 2: No system is called 'x'."


def test_a_worker_that_came_too_late_to_join_is_not_waited_for(tmp_path: Path) -> None:
    run = _run(3, 1)
    assert run.lingering(30.0, 0.0) == []
    run.ended("j/1/0", 0, tmp_path)
    run.ended("j/1/1", 0, tmp_path)
    assert run.lingering(30.0, 1.0) == []
    assert run.lingering(30.0, 32.0) == ["j/1/2"]


def test_the_others_of_a_worker_that_failed_are_ended_after_a_while(tmp_path: Path) -> None:
    run = _run(2)
    run.ended("j/1/0", 1, tmp_path)
    assert run.lingering(30.0, 1.0) == []
    assert run.lingering(30.0, 32.0) == ["j/1/1"]


@pytest.mark.parametrize("status", [20, 29, 23, 255, 1, -2])
def test_only_the_exit_code_of_what_cannot_be_run_ends_a_job_at_once(tmp_path: Path, status: int) -> None:
    run = _run(1)
    run.ended("j/1/0", status, tmp_path)
    assert not run.settle(3, 1.0)


@pytest.mark.parametrize("status", [REFUSED, NoProgressError.EXIT_CODE])
def test_a_job_that_cannot_be_run_is_over(tmp_path: Path, status: int) -> None:
    run = _run(1)
    run.ended("j/1/0", status, tmp_path)
    assert run.settle(3, 1.0)
    assert run.over == "failed"


def test_a_crew_whose_members_fail_one_after_another_has_failed_though_some_are_always_there(tmp_path: Path) -> None:
    run = _run(2, 1)
    for number in range(6):
        run.ended(f"j/1/{number}", 1, tmp_path)
        run.next_worker(WorkerSlot("h0"))
        assert not run.settle(3, 1.0)
    run.ended("j/1/6", 1, tmp_path)
    assert run.settle(3, 2.0)
    assert (run.over, len(run.workers)) == ("failed", 1)


def test_a_host_on_which_all_fail_does_not_end_the_crew_on_others(tmp_path: Path) -> None:
    run = _run(2, 1)
    for number in range(1, 40):
        run.ended(f"j/1/{number}", REFUSED, tmp_path)
        run.next_worker(WorkerSlot("bad"))
        assert not run.settle(3, 1.0)
    run.ended("j/1/0", 0, tmp_path)
    run.workers.clear()
    assert run.settle(3, 2.0)
    assert run.over == "ended"
