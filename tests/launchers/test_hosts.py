"""Tasks on several hosts, whose shells are this one's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.launchers.hosts import HostTasks
from polyrhythm.launchers.protocol import Loss, TaskOrder

ORDERED = TaskOrder("127.0.0.1", 1, "5ecre7", 2)
HERE = {"left": ["sh", "-c"], "right": ["sh", "-c"]}


def _losses(tasks: HostTasks) -> list[Loss]:
    while not (losses := tasks.losses()):
        time.sleep(0.01)
    return losses


def test_the_order_is_in_the_environment_of_the_command_on_each_host(tmp_path: Path) -> None:
    command = ["sh", "-c", f'echo "$POLYRHYTHM_TASK $MORE" >> {tmp_path}/output']
    tasks = HostTasks(HERE, lambda: [command, command], ORDERED, {"MORE": "a b"})
    assert [loss.rank for loss in _losses(tasks)] == [None]
    assert tasks.losses() == []
    tasks.close(5.0)
    first, second = (tmp_path / "output").read_text().splitlines()
    assert first == second
    assert "5ecre7" in first
    assert first.endswith(" a b")


def test_a_host_whose_command_fails_is_named_and_all_begin_anew(tmp_path: Path) -> None:
    numbers = iter((4, 5))
    tasks = HostTasks(HERE, lambda: [["sh", "-c", f"exit {next(numbers)}"], ["sh", "-c", "exit 0"]], ORDERED, {})
    assert "exit code 4" in _losses(tasks)[0].reason
    assert tasks.restart([1]) == [0, 1]
    assert "exit code 5" in _losses(tasks)[0].reason
    tasks.close(5.0)


def test_a_command_ends_with_its_connection(tmp_path: Path) -> None:
    command = ["sh", "-c", f"trap 'echo ended >> {tmp_path}/output; exit' TERM; touch {tmp_path}/started; while :; do sleep 0.05; done"]
    tasks = HostTasks({"left": ["sh", "-c"]}, lambda: [command], ORDERED, {})
    while not (tmp_path / "started").exists():
        time.sleep(0.01)
    for program in tasks._programs.values():
        assert program._process.stdin is not None
        program._process.stdin.close()
    _losses(tasks)
    tasks.close(5.0)
    assert (tmp_path / "output").read_text() == "ended\n"


def test_a_command_that_reaches_no_host_is_refused() -> None:
    with pytest.raises(CompositionError, match="no command 'no-such-shell' here"):
        HostTasks({"left": ["no-such-shell"]}, lambda: [["true"]], ORDERED, {})
