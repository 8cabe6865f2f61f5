"""What the simulator's kernel costs: events a second on one core, and the steps of blocking programs.

    python benchmarks/kernel.py [--workers 1000] [--rounds 100] [--steps 100]

An event is an effect that an actor asks for, or something that happens to it: a message delivered, a sleep ended. Times are CPU
times of this process, which is of one thread. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable, Coroutine
from typing import Any

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Instant, Simulator

Conversation = Callable[[Port, int, int], Coroutine[Effect[Any], Any, None]]


async def sleeping(port: Port, workers: int, rounds: int) -> None:
    """Two events a round: it asks for a sleep and is woken."""
    share = 0.5 + rank_of(port.name) / workers
    for number in range(rounds):
        await port.sleep(share + number % 7)


async def ping_pong(port: Port, workers: int, rounds: int) -> None:
    """Three events a round: a message is sent, delivered and received."""
    partner = worker(rank_of(port.name) ^ 1)
    ball = Message("ball")
    for _ in range(rounds):
        await port.send(partner, ball)
        await port.receive("ball", partner)


def seconds_of(conversation: Conversation, simulator: Simulator, workers: int, rounds: int) -> float:
    """CPU seconds of one conversation at each of `workers` workers."""
    return _timed(simulator, workers, lambda stage: stage.perform(conversation(stage.port, workers, rounds)))


def stepping(simulator: Simulator, workers: int, steps: int) -> float:
    """CPU seconds when each step of a blocking program performs one send and one receive, around a ring."""

    def program(stage: WorkerContext) -> None:
        rank, port = rank_of(stage.port.name), stage.port
        following, previous = worker((rank + 1) % workers), worker((rank - 1) % workers)

        async def exchange() -> None:
            await port.send(following, Message("step"))
            await port.receive("step", previous)

        for _ in range(steps):
            stage.charge(1)
            stage.perform(exchange())

    return _timed(simulator, workers, program)


def _timed(simulator: Simulator, workers: int, program: Callable[[WorkerContext], None]) -> float:
    begin = time.process_time()
    simulator.execute(Job(workers, 0, program, no_service, lambda actor: True), lambda event: None)
    return time.process_time() - begin


def no_service(port: Port, record: Recorder) -> Coroutine[Effect[Any], Any, None]:
    """The service of a job without servers."""
    raise AssertionError("there are no servers")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    workers, rounds, steps = given.workers // 2 * 2, given.rounds, given.steps
    instant, flows = Simulator(network=Instant(), separate_randomness=False), Simulator(network="lan", separate_randomness=False)
    found = {
        "python": platform.python_version(),
        "workers": workers,
        "events_per_second": {
            "sleeping": 2 * workers * rounds / seconds_of(sleeping, instant, workers, rounds),
            "ping_pong": 3 * workers * rounds / seconds_of(ping_pong, instant, workers, rounds),
            "ping_pong_through_flows": 3 * workers * rounds / seconds_of(ping_pong, flows, workers, rounds),
        },
        "microseconds_per_step": {
            "instant": 1e6 * stepping(instant, workers, steps) / (workers * steps),
            "through_flows": 1e6 * stepping(flows, workers, steps) / (workers * steps),
            "with_separate_randomness": 1e6 * stepping(Simulator(network=Instant()), workers, steps) / (workers * steps),
        },
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
