"""What a JOB prints in many runs, shown once."""

from __future__ import annotations

import io
import sys

import pytest

from polyrhythm.core.records.job_output import HEADING, Headed, JobOutput, kept_out, to_stderr


def test_lines_that_differ_in_numbers_only_are_shown_once() -> None:
    shown: list[str] = []
    output = JobOutput(shown.append)
    for epoch in range(3):
        print(f"epoch {epoch}: loss {1 / (epoch + 1):.3e}", file=output)
        print("done", file=output)
    output.write("half of ")
    output.write("a line\n\n")
    assert shown == ["epoch 0: loss 1.000e+00", "done", "half of a line"]
    other = JobOutput(shown.append, set(output.seen))
    other.write("epoch 9: loss -4\nnew\n")
    assert shown[3:] == ["new"]


def test_a_job_that_prints_ever_other_lines_is_cut_off() -> None:
    shown: list[str] = []
    output = JobOutput(shown.append)
    for count in range(1000):
        print("x" * count, file=output)
    assert len(shown) == 100


def test_prints_and_warnings_are_kept_out_and_come_under_a_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", err := io.StringIO())
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    output = JobOutput(Headed(to_stderr()))
    for _ in range(5):
        with kept_out(output):
            print("hello")
            print("job.py:3: UserWarning: careful", file=sys.stderr)
    lines = err.getvalue().splitlines()
    assert lines[0] == f"polyrhythm: {HEADING}"
    assert lines.count("  hello") == 1
    assert sum("UserWarning: careful" in line for line in lines) == 1
    assert out.getvalue() == ""
