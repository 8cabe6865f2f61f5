"""The clock of a run of several attempts."""

from polyrhythm.launchers.run_clock import RunClock


def test_the_first_attempt_has_the_workers_own_times() -> None:
    clock = RunClock(lambda: 100.0)
    clock.begin_attempt()
    assert [clock.of_run(seconds) for seconds in (0.0, 1.0, 2.5)] == [0.0, 1.0, 2.5]


def test_a_later_attempt_goes_on_where_the_run_is_though_its_workers_are_back_at_a_checkpoint() -> None:
    now = [100.0]
    clock = RunClock(lambda: now[0])
    clock.begin_attempt()
    assert clock.of_run(0.0) == 0.0
    now[0] = 130.0
    clock.begin_attempt()
    assert clock.of_run(12.0) == 30.0
    assert clock.of_run(13.0) == 31.0
    assert clock.latest == 31.0
