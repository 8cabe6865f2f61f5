"""Who stands still, and who is only slow: found from the status of actors, in a time that the test makes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyrhythm.core.processes.runtime.stall_detection import Patience, StallDetector
from polyrhythm.core.processes.runtime.status import ActorStatus
from polyrhythm.errors import CompositionError

WAITS = ["waits for something"]


def waiting(seconds: float, stopped: bool = False, clock: int = 17) -> ActorStatus:
    return ActorStatus(0, clock, seconds, 0.1, stopped, seconds, WAITS)


def computing(clock: int = 17, ago: float = 0.0, longest: float = 0.1, pid: int = 0) -> ActorStatus:
    return ActorStatus(pid, clock, ago, longest)


def stalls(patience: Patience | None = None, workers: int = 3, servers: int = 1) -> StallDetector:
    made = StallDetector(patience or Patience())
    made.begin([*(f"worker/{rank}" for rank in range(workers)), *(f"server/{shard}" for shard in range(servers))], 0.0)
    return made


def test_who_keeps_the_others_waiting_is_named_with_its_last_step_at_growing_intervals() -> None:
    seen = stalls()
    for name in ("worker/0", "worker/1", "server/0"):
        seen.update(name, waiting(2.0), 10.0)
    reported = []
    for second in range(10, 200):
        for name in ("worker/0", "worker/1", "server/0"):
            seen.update(name, waiting(second - 8.0), second)
        seen.update("worker/2", computing(17, second - 6.0), second)
        if (stall := seen.look(second)) is not None:
            reported.append(stall)
    assert [stall.sentence for stall in reported] == [
        f"worker/0 and worker/1 have waited {waited} s for worker/2, which last took step 17, {waited + 2} s ago."
        for waited in (30, 60, 120)
    ]
    assert reported[0].culprits == ["worker/2"]


def test_a_slow_worker_is_not_a_stalled_one() -> None:
    seen = stalls()
    for second in range(2, 230):
        seen.update("worker/0", waiting(float(second)), second)
        seen.update("worker/1", waiting(float(second)), second)
        seen.update("worker/2", computing(longest=60.0), second)
        assert seen.look(second) is None
        assert seen.expired(second) is None


def test_servers_that_wait_for_workers_that_compute_are_nobodys_stall() -> None:
    seen = stalls()
    seen.update("server/0", waiting(500.0), 500.0)
    assert seen.look(500.0) is None


def test_after_the_timeout_the_run_ends_with_the_name_and_not_before() -> None:
    seen = stalls(Patience(timeout=40.0))
    seen.update("worker/0", waiting(2.0), 10.0)
    seen.update("worker/1", waiting(2.0), 10.0)
    assert seen.expired(47.0) is None
    verdict = seen.expired(48.5)
    assert verdict is not None
    assert verdict.actor == "worker/2"
    assert "within timeout=40 seconds" in str(verdict)
    assert "nothing has been received from it for" in str(verdict)


@pytest.fixture
def stopped() -> Iterator[int]:
    """The id of a process that is stopped by a signal."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            os.kill(process.pid, signal.SIGSTOP)
            while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                pass
            yield process.pid
        finally:
            process.kill()


def test_a_process_that_is_stopped_is_seen_as_such_and_makes_no_deadlock(stopped: int) -> None:
    seen = stalls(servers=0, workers=2)
    seen.update("worker/0", waiting(50.0), 50.0)
    seen.update("worker/1", ActorStatus(stopped, 17, 50.0, 0.1, False, 50.0, WAITS), 50.0)
    assert seen.deadlock(50.0) is None
    stall = seen.look(51.0)
    assert stall is not None
    assert stall.sentence.endswith(f"its process {stopped} is stopped by a signal (kill -CONT {stopped} continues it).")


def test_what_is_stopped_is_reported_at_growing_intervals_until_the_timeout(stopped: int) -> None:
    seen = stalls(Patience(notice=2.0, timeout=6.0), servers=0, workers=2)
    seen.update("worker/0", waiting(2.0), 2.0)
    seen.update("worker/1", computing(0, pid=stopped), 0.0)
    reported = [second for second in range(2, 8) if seen.look(second) is not None]
    assert reported == [2, 4]
    assert (seen.expired(5.9), seen.expired(6.0) is None) == (None, False)


def test_a_deadlock_is_found_sooner_where_some_take_no_more_steps() -> None:
    for stopped, quiet, expected in (
        (False, 19.0, None),
        (False, 20.0, "Deadlock: "),
        (True, 1.0, None),
        (True, 2.0, "worker/0 finished after"),
    ):
        seen = stalls()
        for name in seen.names:
            seen.update(name, waiting(quiet, stopped and name == "worker/0"), 30.0)
        error = seen.deadlock(30.0)
        assert error is None if expected is None else expected in str(error)


def test_who_has_ended_is_not_waited_for() -> None:
    seen = stalls(servers=0)
    for name in ("worker/0", "worker/1"):
        seen.update(name, waiting(100.0), 100.0)
    seen.forget("worker/2", 100.0)
    assert seen.stall(100.0) is None
    assert seen.deadlock(100.0) is None  # they may be about to report that they go on: what it sent last is still on its way
    for name in ("worker/0", "worker/1"):
        seen.update(name, waiting(105.0), 105.0)
    assert "Deadlock: waits for something; waits for something." in str(seen.deadlock(105.0))


def leaving(seconds: float) -> ActorStatus:
    return ActorStatus(0, 17, seconds, 0.1, True, seconds, WAITS, leaving=True)


def test_who_leaves_does_not_wait_for_what_worker_0_still_computes() -> None:
    seen = stalls(Patience(notice=5.0, timeout=8.0), servers=0)
    for second in range(2, 600):
        seen.update("worker/0", computing(), second)
        for name in ("worker/1", "worker/2"):
            seen.update(name, leaving(float(second)), second)
        assert seen.look(second) is None
        assert seen.expired(second) is None
        assert seen.deadlock(second) is None


def test_one_that_is_silent_keeps_no_other_from_leaving() -> None:
    seen = stalls(Patience(timeout=4.0), servers=0)
    seen.update("worker/0", computing(), 10.0)
    for second in range(10, 26):
        for name in ("worker/1", "worker/2"):
            seen.update(name, leaving(float(second)), second)
        assert seen.expired(second) is None
    verdict = seen.expired(25.5)
    assert verdict is not None
    assert verdict.actor == "worker/0"
    assert "nothing has been received from it for 16 s, so it is stopped or disconnected" in str(verdict)


def test_who_is_stopped_keeps_no_other_from_leaving(stopped: int) -> None:
    seen = stalls(Patience(timeout=4.0), servers=0, workers=2)
    seen.update("worker/0", computing(pid=stopped), 10.0)
    seen.update("worker/1", leaving(2.0), 10.0)
    assert seen.expired(10.0) is None
    verdict = seen.expired(14.0)
    assert verdict is not None
    assert f"worker/0 has made no progress for 4 s, which last took step 17, 4 s ago; its process {stopped} is stopped" in str(verdict)


@pytest.mark.parametrize("wrong", [{"timeout": 0.0}, {"notice": -1.0}, {"deadlock": 0.0}, {"timeout": float("nan")}], ids=str)
def test_times_that_cannot_be_waited_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CompositionError, match="is not a positive time: give more than 0 seconds"):
        Patience(**wrong)
