"""Runs in parallel and within each other, in one process."""

from __future__ import annotations

import sys
import threading

import torch

from polyrhythm.core import rng
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.simulator.simulator import Simulator

from .scenes import INSTANT, job, play


def test_runs_in_several_threads_do_not_disturb_each_other() -> None:
    def program(context: WorkerContext) -> Message:
        async def pause() -> None:
            await context.port.sleep(1.0)

        rng.seed_everything(5, context.port.name)
        drawn = []
        for _ in range(30):
            drawn.append(float(torch.rand(1)))
            context.perform(pause())
        return Message("drawn", tuple(drawn))

    def once() -> None:
        ending, _ = play(job(program, program), Simulator(network=INSTANT))
        seen.append(str(ending.results))

    seen: list[str] = []
    once()
    threads = [threading.Thread(target=lambda: [once() for _ in range(5)]) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert seen == seen[:1] * 11


def test_a_run_inside_a_program_of_another_is_its_own() -> None:
    def inner(context: WorkerContext) -> Message:
        return Message("inner", (float(context.port.name == "worker/0"),))

    def program(context: WorkerContext) -> Message | None:
        return play(job(inner), Simulator(network=INSTANT))[0].results["worker/0"]

    assert play(job(program, program), Simulator(network=INSTANT))[0].results["worker/1"] == Message("inner", (1.0,))
