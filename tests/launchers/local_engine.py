"""An engine whose tasks are processes of this host, for runs in which some are killed.

An outer run has started all of them, also those that take the place of others: each waits until the engine gives it a rank.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.protocol import Loss, TaskOrder
from polyrhythm.launchers.task import serve

_SECONDS = 60.0


class Start(msgspec.Struct):
    """What a process is given."""

    rank: int
    order: TaskOrder


@dataclass
class LocalEngine(EngineRuntime):
    """The engine; processes find what they are to do in `folder`."""

    folder: Path
    restarts: int = 1
    startup: float = _SECONDS
    threads: int = 1
    timeout: float | None = None
    seed: int = 3
    kind: str = "local"
    order: TaskOrder | None = None
    running: dict[int, Path] = field(default_factory=dict)
    begun: int = 0

    def driver_address(self) -> str:
        return "127.0.0.1"

    def start(self, order: TaskOrder) -> LocalEngine:
        self.order = order
        self.restart(list(range(order.workers)))
        return self

    def losses(self) -> list[Loss]:
        found = [rank for rank, path in self.running.items() if path.exists() and not _lives(int(path.read_text()))]
        for rank in found:
            del self.running[rank]
        return [Loss(rank, "killed by signal 9 (SIGKILL)") for rank in found]

    def restart(self, ranks: list[int]) -> list[int]:
        assert self.order is not None
        for rank in ranks:
            self.begun += 1
            _write(self.folder / f"start-{self.begun}", msgspec.json.encode(Start(rank, self.order)))
            self.running[rank] = self.folder / f"pid-{self.begun}"
        return ranks

    def close(self, seconds: float) -> None:
        """They end when the driver says so."""


def with_processes(folder: Path, processes: int, drive: Callable[[LocalEngine], None]) -> None:
    """Call `drive` with an engine that can start so many processes, in the course of the run; each may end in any way."""

    def program(context: WorkerContext) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        number = int(context.port.name.rpartition("/")[2])
        if number:
            _be_task(folder, number)
            return
        try:
            drive(LocalEngine(folder))
        finally:
            (folder / "over").touch()

    Processes().execute(Job(processes + 1, 0, program, _no_service, lambda name: name == "worker/0"), lambda event: None)


def _be_task(folder: Path, number: int) -> None:
    path, deadline = folder / f"start-{number}", time.monotonic() + _SECONDS
    while not path.exists():
        if (folder / "over").exists() or time.monotonic() > deadline:
            return
        time.sleep(0.005)
    given = msgspec.json.decode(path.read_bytes(), type=Start)
    _write(folder / f"pid-{number}", str(os.getpid()).encode())
    serve(given.order, given.rank)


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def _no_service(port: Port, record: Recorder) -> None:
    return None
