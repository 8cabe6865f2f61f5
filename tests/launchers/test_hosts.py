"""Tasks on several hosts, whose shells are this one's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.launchers.hosts import HostTasks, SeparateHosts
from polyrhythm.launchers.protocol import Loss, TaskOrder

ORDERED = TaskOrder("127.0.0.1", 1, "5ecre7", 2)
HERE = {"left": ["sh", "-c"], "right": ["sh", "-c"]}


def _losses(tasks: HostTasks | SeparateHosts) -> list[Loss]:
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


@pytest.mark.parametrize("replaces", [True, False])
def test_hosts_of_a_crew_that_changes_end_and_begin_for_themselves(replaces: bool, tmp_path: Path) -> None:
    command = ["sh", "-c", f'echo "$POLYRHYTHM_FIRST_RANK" >> {tmp_path}/begun; test "$POLYRHYTHM_FIRST_RANK" = 0 || exit 4; sleep 60']
    tasks = SeparateHosts(HERE, command, TaskOrder("127.0.0.1", 1, "5ecre7", 4, changes=True, replaces=replaces), {})
    why = "the command on right ended with exit code 4; its earlier output should show why"
    assert _losses(tasks) == [Loss(2, why), Loss(3, why)]
    assert tasks.losses() == []
    assert tasks.restart([2]) == [2, 3]
    assert len(_losses(tasks)) == 2
    tasks.close(0.0)
    assert sorted((tmp_path / "begun").read_text().split()) == ["0", "2", "2"]


def test_a_task_on_a_host_that_is_there_is_started_again_with_its_host_unless_that_does_it_by_itself(tmp_path: Path) -> None:
    command = ["sh", "-c", f"echo begun >> {tmp_path}/begun; sleep 60"]
    for replaces, restarted in ((True, [1]), (False, [0, 1])):
        tasks = SeparateHosts(HERE, command, TaskOrder("127.0.0.1", 1, "5ecre7", 4, changes=True, replaces=replaces), {})
        assert tasks.restart([1]) == restarted
        tasks.close(0.0)


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
