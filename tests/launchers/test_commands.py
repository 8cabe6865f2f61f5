"""Engines that are commands."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from leftovers import soon

from polyrhythm.core.processes.rendezvous.rank_environment import launched_rank
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.commands import ORDER, CommandTasks
from polyrhythm.launchers.protocol import TaskOrder

ORDERED = TaskOrder("127.0.0.1", 1, "00", 2)


def ended(tasks: CommandTasks) -> list[str]:
    """The reasons of the losses, when there are some."""
    while not (losses := tasks.losses()):
        pass
    assert [loss.rank for loss in losses] == [None]
    return [loss.reason for loss in losses]


def test_all_tasks_are_lost_when_the_command_ends_and_that_is_reported_once() -> None:
    tasks = CommandTasks(["sh", "-c", "exit 3"], ORDERED, {})
    assert ended(tasks) == ["sh ended with exit code 3; its earlier output should show why"]
    assert tasks.losses() == []
    tasks.close(5.0)


def test_a_restart_begins_the_command_anew_with_all_tasks() -> None:
    tasks = CommandTasks(["sh", "-c", "exit 3"], ORDERED, {})
    ended(tasks)
    assert tasks.restart([1]) == [0, 1]
    ended(tasks)
    tasks.close(5.0)


def test_a_command_that_is_still_there_is_ended() -> None:
    tasks = CommandTasks(["sh", "-c", "kill -STOP $$; exit 3"], ORDERED, {}, ending_seconds=0.1)
    tasks.restart([0])
    assert tasks.losses() == []
    tasks.close(5.0)


def test_the_order_is_in_the_environment_and_not_on_the_command_line(tmp_path: os.PathLike[str]) -> None:
    tasks = CommandTasks(["sh", "-c", f'test "${ORDER}" != "" && test "$MORE" = yes && exit 7'], ORDERED, {"MORE": "yes"})
    assert "exit code 7" in ended(tasks)[0]
    tasks.close(5.0)


def test_a_command_that_is_not_there_is_refused() -> None:
    with pytest.raises(CompositionError, match="There is no command 'no-such-launcher' here"):
        CommandTasks(["no-such-launcher"], ORDERED, {})


@pytest.mark.parametrize(
    "given",
    [{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, {"PMI_RANK": "1", "PMI_SIZE": "4"}],
    ids=["Open MPI", "MPICH"],
)
def test_a_task_on_one_of_several_hosts_needs_no_address_of_the_first(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert launched_rank() == 1


def test_a_command_is_stopped_when_the_driver_is_killed(tmp_path: Path) -> None:
    """The driver is a process of its own here, which starts a command, says its number and is killed."""
    code = (
        "import os, signal\n"
        "from polyrhythm.launchers.program import CommandProcess\n"
        f"script = 'echo $$ > {tmp_path}/number.new; mv {tmp_path}/number.new {tmp_path}/number; sleep 60'\n"
        "program = CommandProcess(['sh', '-c', script], os.environ)\n"
        f"while not os.path.exists('{tmp_path}/number'): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    number = int((tmp_path / "number").read_text())
    assert soon(lambda: number not in running())


def running() -> set[int]:
    """The numbers of all processes that have not ended."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(int(entry.name))
    return found


def test_a_command_whose_tasks_are_kept_starts_them_again_by_itself_while_it_is_there() -> None:
    tasks = CommandTasks(["sh", "-c", "sleep 60"], TaskOrder("127.0.0.1", 1, "00", 2, changes=True, replaces=True), {})
    assert tasks.restart([1]) == [1]
    tasks.close(0.0)
