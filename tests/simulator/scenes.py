"""Small jobs for the simulator's tests: one function for each worker, one coroutine function for each server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import AnyEvent, Recorder
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.hardware.network import Network

Program = Callable[[WorkerContext], Message | None]
Service = Callable[[Port], Coroutine[Effect[Any], Any, None]]

INSTANT = Instant()
PLAIN = Network.uniform("plain", 1000.0, 0.5)
"""1000 bytes per second, half a second one way."""


def job(*programs: Program, servers: tuple[Service, ...] = (), survives: bool = False, seed: int = 0) -> Job:
    """A job whose worker r runs `programs[r]` and whose server k runs `servers[k]`."""

    def program(context: WorkerContext) -> Message | None:
        return programs[rank_of(context.port.name)](context)

    def service(port: Port, record: Recorder) -> Coroutine[Effect[Any], Any, None]:
        return servers[rank_of(port.name)](port)

    return Job(len(programs), len(servers), program, service, lambda actor: not survives, seed)


def play(given: Job, simulator: Simulator) -> tuple[Ending, list[AnyEvent]]:
    """The ending and the record of `given`."""
    events: list[AnyEvent] = []
    return simulator.execute(given, events.append), events


def silent(context: WorkerContext) -> None:
    """A program that does nothing."""


def note(*numbers: float, text: str = "") -> Message:
    """A message of numbers under the topic "x"."""
    return Message("x", numbers, text)
