"""Real processes that are stopped, held, slow, writing or gone: each is found within 3 seconds."""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from polyrhythm.core.atomic import write
from polyrhythm.core.kernel.events import AnyEvent, Faulted, Recorder, Stepped, Suspected
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.runtime.beats import PeerFinding
from polyrhythm.core.processes.spawn import launch
from polyrhythm.core.processes.spawn.child_watch import Reaction
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import WorkerFailed

Deed = Callable[[], None]


async def no_service(port: Port, record: Recorder) -> None:
    return None


async def nothing(port: Port) -> None:
    return None


def steps_then(deed: Deed) -> Callable[[WorkerContext], None]:
    """A program in which worker 1 takes some steps of 20 ms, and then does the deed while worker 0 is away for as long."""

    def program(context: WorkerContext) -> None:
        for clock in range(25):
            context.perform(nothing(context.port))
            time.sleep(0.02)
            context.record(Stepped(context.port.now(), context.port.name, clock + 1, 0, 0))
        if context.port.name == "worker/1":
            deed()

    return program


def suspected(deed: Deed, essential: bool = True) -> tuple[Ending, list[AnyEvent], list[tuple[str, bool]]]:
    """The run, its events, and the verdicts on worker 1 with whether each came within 3 seconds."""
    events: list[AnyEvent] = []
    job = Job(2, 0, steps_then(deed), no_service, lambda name: essential or name == "worker/0")
    ending = Processes().execute(job, events.append)
    found = [event for event in events if isinstance(event, Suspected)]
    assert {event.actor for event in found} <= {"worker/1"}
    return ending, events, [(event.verdict, event.time - event.since <= 3.0) for event in found]


def stop_and_be_continued() -> None:
    pid = os.getpid()
    if os.fork() == 0:
        time.sleep(1.8)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)


def keep_the_gil() -> None:
    ctypes.PyDLL(None).usleep(3_000_000)
    time.sleep(0.5)


def multiply() -> None:
    torch.set_num_threads(1)
    wide = torch.randn(3000, 3000)
    began = time.monotonic()
    while time.monotonic() - began < 3.0:  # one call after the other, of a second or so
        wide @ wide


def write_slowly(path: Path) -> None:
    slow = os.fsync

    def fsync(descriptor: int) -> None:
        time.sleep(1.0)
        slow(descriptor)

    os.fsync = fsync
    write(path, b"weights")
    time.sleep(0.5)


def test_a_process_that_is_stopped_is_found_and_so_is_that_it_goes_on() -> None:
    assert suspected(stop_and_be_continued)[2] == [("stopped", True), ("alive", True)]


def test_a_call_that_keeps_the_gil_is_no_silence() -> None:
    found = suspected(keep_the_gil)[2]
    assert [one for one in found if one[0] != "slow"] == [
        ("held", True),
        ("alive", True),
    ]  # first slow where a busy host has raised the limits


def test_a_long_computation_in_torch_is_slow_and_not_dead() -> None:
    assert suspected(multiply)[2] in ([("slow", True)], [("slow", True), ("alive", True)])


def test_a_slow_disk_is_named(tmp_path: Path) -> None:
    assert suspected(partial(write_slowly, tmp_path / "file"))[2] == [("writing", True), ("alive", True)]


def test_a_process_that_ends_is_lost_at_once_and_not_suspected() -> None:
    ending, events, verdicts = suspected(partial(os._exit, 3), essential=False)
    assert ending.lost == ["worker/1"]
    assert verdicts == []
    last = max(event.time for event in events if isinstance(event, Stepped))
    assert [event.time - last < 3.0 for event in events if isinstance(event, Faulted)] == [True]


def test_a_policy_may_have_a_suspect_killed_which_is_then_lost_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def replace(name: str, found: PeerFinding) -> Reaction:
        asked.append((name, found.verdict))
        return Reaction.REPLACE

    monkeypatch.setattr(launch, "wait", replace)
    with pytest.raises(WorkerFailed, match=r"worker/1 failed: .*SIGKILL") as caught:
        suspected(partial(os.kill, 0, signal.SIGSTOP))
    assert caught.value.actor == "worker/1"
    assert set(asked) == {("worker/1", "stopped")}
