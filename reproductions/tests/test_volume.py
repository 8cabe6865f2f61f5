"""Bytes of a step are counted between two workers, without what a run sends once."""

from __future__ import annotations

import pytest

from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.volume import times_fewer

JOB = Teacher(width=256)


def test_a_method_sends_as_many_bytes_as_itself() -> None:
    assert times_fewer(JOB, find("allreduce")) == 1.0


def test_warm_ups_are_left_out() -> None:
    assert times_fewer(JOB, find("onebit-adam", warmup=4), after=4) == pytest.approx(32, rel=0.05)


def test_steps_of_a_warm_up_are_counted_where_it_is_not_over() -> None:
    assert times_fewer(JOB, find("onebit-adam", warmup=16)) == pytest.approx(1, rel=0.01)
