"""Processes that are killed: who is named, how soon, and what is left."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from leftovers import descendants, soon

from polyrhythm.core.kernel.events import AnyEvent, Recorder, Reported
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn import fork_client
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import RunError, WorkerFailed

WORKERS, SERVERS = 2, 2


def orphaned_sockets() -> set[str]:
    """Abstract sockets of ours whose process is gone."""
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "@polyrhythm-" in line]
    return {name for name in names if not Path(f"/proc/{name.split('-')[1]}").exists()}


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Nothing but the kept fork server may remain."""
    fork_client.warm()
    processes, memory = descendants(os.getpid()), set(os.listdir("/dev/shm"))
    yield
    assert descendants(os.getpid()) == processes
    assert soon(lambda: set(os.listdir("/dev/shm")) <= memory)
    assert soon(lambda: not orphaned_sockets())


async def serve(port: Port, record: Recorder) -> None:
    record(Reported(port.now(), port.name, 0, {"pid": os.getpid()}, 0))
    while True:
        delivery = await port.receive("push")
        assert delivery is not None
        await port.send(delivery.sender, Message("pull", tensors=delivery.message.tensors))


async def exchange(port: Port, value: torch.Tensor) -> None:
    for shard in range(SERVERS):
        await port.send(f"server/{shard}", Message("push", tensors=(value,)))
    for _ in range(SERVERS):
        await port.receive("pull")


def train_for_ever(context: WorkerContext) -> None:
    context.record(Reported(context.port.now(), context.port.name, 0, {"pid": os.getpid()}, 0))
    while True:
        context.perform(exchange(context.port, torch.ones(50_000)))


class Assassin:
    """Records events, and kills one actor some time after all have reported their process id."""

    def __init__(self, victim: str, delay: float) -> None:
        self.killed = 0.0
        self._victim = victim
        self._delay = delay
        self._pids: dict[str, int] = {}

    def __call__(self, event: AnyEvent) -> None:
        if isinstance(event, Reported):
            self._pids[event.actor] = int(event.metrics["pid"])
            if len(self._pids) == WORKERS + SERVERS:
                threading.Timer(self._delay, self._inject).start()

    def _inject(self) -> None:
        self.killed = time.monotonic()
        os.kill(self._pids[self._victim], signal.SIGKILL)


def kill_one(seed: int, limit: float) -> None:
    draw = random.Random(seed)
    victim = draw.choice([f"worker/{rank}" for rank in range(WORKERS)] + [f"server/{shard}" for shard in range(SERVERS)])
    assassin = Assassin(victim, draw.uniform(0, 0.2))
    job = Job(WORKERS, SERVERS, train_for_ever, serve, lambda name: True)
    with pytest.raises(WorkerFailed, match=rf"{victim} failed: killed by signal 9 \(SIGKILL\)") as caught:
        Processes().execute(job, assassin)
    assert time.monotonic() - assassin.killed < limit
    assert caught.value.actor == victim


@pytest.mark.parametrize(
    ("seeds", "limit"),
    # the promise is two seconds; the few are for machines that are busy with other things, and shorter than any timeout of ours
    [pytest.param(range(3), 8, id="a few"), pytest.param(range(3, 53), 2, id="fifty", marks=pytest.mark.long)],
)
def test_a_killed_process_is_named_soon_and_nothing_is_left(seeds: range, limit: float) -> None:
    with nothing_left_behind():
        for seed in seeds:
            kill_one(seed, limit)


PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has those in the background ignore it
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.processes.spawn.launch import Processes
def program(context):
    os.write(1, b"up\\n")
    while True:
        sum(range(1000))
async def service(port, record):
    os.write(1, b"up\\n")
    await port.receive("never")
try:
    Processes().execute(Job(2, 1, program, service, lambda name: True), lambda event: None)
except KeyboardInterrupt:
    print("interrupted")
"""


@contextmanager
def launcher_at_work() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    with process:
        assert [process.stdout.readline() for _ in range(3)] == ["up\n"] * 3
        yield process


def test_an_interrupt_ends_all_processes_and_is_raised_in_the_launcher() -> None:
    with nothing_left_behind(), launcher_at_work() as process:
        below = descendants(process.pid)
        assert len(below) == 4
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.communicate(timeout=15) == ("interrupted\n", None)
        assert process.returncode == 0
        assert soon(lambda: not any(Path(f"/proc/{process}").exists() for process in below))


def test_a_launcher_that_is_killed_leaves_nothing() -> None:
    with nothing_left_behind(), launcher_at_work() as process:
        below = descendants(process.pid)
        process.kill()
        process.wait(15)
        assert soon(lambda: not any(Path(f"/proc/{process}").exists() for process in below))


@pytest.mark.long
def test_a_fork_server_that_is_killed_takes_all_along_and_the_next_run_has_a_new_one() -> None:
    def program(context: WorkerContext) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(30)

    with pytest.raises(RunError, match=r"^The fork server, which starts the workers, was killed by signal 9 \(SIGKILL\)\.$"):
        Processes().execute(Job(1, 0, program, serve, lambda name: True), lambda event: None)
    # the thread that starts the new one may have blocked the signal that announces deaths
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        assert Processes().execute(Job(1, 0, lambda context: None, serve, lambda name: True), lambda event: None).lost == []
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def test_output_that_the_program_closed_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    Processes().execute(Job(1, 0, lambda context: sys.stdout.close(), serve, lambda name: True), lambda event: None)
    assert capfd.readouterr() == ("", "")


def test_what_a_process_had_started_goes_with_it() -> None:
    def program(context: WorkerContext) -> None:
        below = subprocess.Popen(["sleep", "60"])
        context.record(Reported(0.0, context.port.name, 0, {"pid": below.pid}, 0))
        context.record(Reported(0.0, context.port.name, 0, {"pid": os.getpid()}, 0))
        time.sleep(30)

    pids: list[int] = []

    def note(event: AnyEvent) -> None:
        if isinstance(event, Reported):
            pids.append(int(event.metrics["pid"]))
            if len(pids) == 2:
                os.kill(pids[1], signal.SIGKILL)

    with pytest.raises(WorkerFailed, match="worker/0"):
        Processes().execute(Job(1, 0, program, serve, lambda name: True), note)
    assert soon(lambda: not any(Path(f"/proc/{process}").exists() for process in pids))


def test_the_fork_server_has_one_thread() -> None:
    def program(context: WorkerContext) -> Message:
        return Message("threads", (len(os.listdir(f"/proc/{os.getppid()}/task")),))

    result = Processes().execute(Job(1, 0, program, serve, lambda name: True), lambda event: None).results["worker/0"]
    assert result is not None
    assert result.numbers == (1.0,)


def test_an_error_of_the_recorder_ends_the_run_and_its_processes() -> None:
    def refuse(event: AnyEvent) -> None:
        raise OSError("the disk is full")

    with nothing_left_behind(), pytest.raises(OSError, match="the disk is full"):
        Processes().execute(Job(WORKERS, SERVERS, train_for_ever, serve, lambda name: True), refuse)
