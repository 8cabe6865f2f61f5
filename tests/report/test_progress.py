"""Progress is for people who watch."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from polyrhythm.core.kernel.events import CrewChanged, Stepped
from polyrhythm.core.records.progress import board, progress


class Terminal(io.StringIO):
    """Stderr as a terminal that remembers all."""

    def isatty(self) -> bool:
        return True


def show(wanted: bool) -> None:
    """Two runs, one step each."""
    with progress(2, wanted) as begin:
        for name in ("ssp", "allreduce"):
            watch = begin(name)
            watch(Stepped(1.5, "worker/0", 7, 28, 100))
            watch(Stepped(1.5, "worker/1", 9, 36, 100))


def test_a_terminal_shows_which_run_and_how_far_worker_0_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    show(wanted=True)
    assert "allreduce" in terminal.getvalue()
    assert "step 7, at 1.5 s" in terminal.getvalue()
    assert "step 9" not in terminal.getvalue()


def test_the_line_follows_the_worker_that_is_first_after_worker_0_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress(1, wanted=True) as begin:
        watch = begin("ssp")
        watch(Stepped(1.5, "worker/0", 7, 28, 100))
        watch(CrewChanged(2.0, "worker/1", 1, ("worker/1", "worker/2"), (), ("worker/0",)))
        watch(Stepped(1.9, "worker/1", 7, 28, 100))
        watch(Stepped(2.5, "worker/1", 8, 32, 120))
        watch(Stepped(2.6, "worker/2", 9, 36, 120))
    assert "step 8, at 2.5 s of the run, 2 workers" in terminal.getvalue()
    assert "step 9" not in terminal.getvalue()


def test_nothing_is_shown_when_it_is_not_wanted_or_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    show(wanted=False)
    monkeypatch.setattr(sys, "stderr", pipe)
    show(wanted=True)
    assert terminal.getvalue() + pipe.getvalue() == ""


def test_runs_under_way_at_once_share_the_line_which_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    before = set(threading.enumerate())
    with board(3, wanted=True) as shown:
        shown.begin("ssp")
        shown.begin("tree")
        shown.see("ssp", Stepped(1.5, "worker/0", 7, 28, 100))
        shown.refresh()
        assert set(threading.enumerate()) <= before
        shown.end("ssp")
        shown.refresh()
    written = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "ssp, tree" in written
    assert "ssp: step 7" in written
    assert "1/3" in written


def test_without_a_terminal_nothing_is_shown_of_runs_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with board(2, wanted=False) as shown:
        shown.begin("ssp")
        shown.end("ssp")
        shown.refresh()
    assert capsys.readouterr().err == ""
