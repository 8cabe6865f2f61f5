"""The process that stays where a task's own process is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.launchers import keeper
from polyrhythm.launchers.keeper import keep
from polyrhythm.launchers.protocol import NO_DRIVER


async def no_service(port: Port, record: Recorder) -> None:
    return None


def kept(folder: Path, replaces: bool, *ends: int) -> None:
    """A keeper whose processes end so one after the other: killed by a signal (negative), or with an exit code."""

    def program(context: WorkerContext) -> None:
        if not (child := os.fork()):
            if not keep("worker/1", replaces):
                (folder / "over").touch()
                os._exit(0)
            number = len(list(folder.iterdir()))
            (folder / str(number)).touch()
            if ends[number] < 0:
                os.kill(os.getpid(), -ends[number])
            os._exit(ends[number])
        os.waitpid(child, 0)

    Processes().execute(Job(1, 0, program, no_service, lambda name: True), lambda event: None)


@pytest.mark.parametrize(
    ("replaces", "ends", "begun"),
    [
        (True, (-signal.SIGKILL, 4, 0), 3),
        (True, (NO_DRIVER,), 1),
        (False, (-signal.SIGKILL,), 1),
        (True, (4, 4, 4), keeper._FAILURES),
    ],
    ids=["lost ones are replaced", "the driver is gone", "nobody is replaced", "none comes far"],
)
def test_another_process_takes_the_place_of_a_lost_one(replaces: bool, ends: tuple[int, ...], begun: int, tmp_path: Path) -> None:
    kept(tmp_path, replaces, *ends)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*map(str, range(begun)), "over"]
