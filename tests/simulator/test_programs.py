"""Blocking programs as virtual workers: what they return and raise, and what of the thread is their own."""

from __future__ import annotations

import gc
import inspect
import random
import sys
from typing import Any

import numpy as np
import pytest
import torch

from polyrhythm.core import rng
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.program import Program
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, WorkerFailed, WorkloadError

from .scenes import INSTANT, PLAIN, job, note, play, silent


def pause(context: WorkerContext, seconds: float = 1.0) -> None:
    async def sleep() -> None:
        await context.port.sleep(seconds)

    context.perform(sleep())


def test_results_are_what_the_programs_returned_and_seconds_the_end_of_the_last() -> None:
    def patient(context: WorkerContext) -> Message:
        pause(context, 3.0)
        return note(3)

    ending, _ = play(job(lambda context: note(1), patient, silent), Simulator(network=INSTANT))
    assert ending.results == {"worker/0": note(1), "worker/1": note(3), "worker/2": None}
    assert ending.seconds == 3.0


def test_perform_gives_back_what_the_coroutine_returned_and_raises_what_it_raised() -> None:
    async def respond() -> int:
        return 42

    async def trouble() -> int:
        raise KeyError("no such thing")

    def program(context: WorkerContext) -> Message:
        with pytest.raises(KeyError, match="no such thing"):
            context.perform(trouble())
        return note(context.perform(respond()))

    ending, _ = play(job(program), Simulator(network=INSTANT))
    assert ending.results["worker/0"] == note(42)


def draw(context: WorkerContext) -> Message:
    """Seeds itself and draws from all three global generators, an odd number of normal deviates at a time."""
    rng.seed_everything(5, context.port.name)
    drawn: list[float] = []
    for _ in range(6):
        drawn += [torch.rand(()).item(), float(np.random.rand()), random.random(), float(np.random.randn()), random.gauss(0, 1)]
        pause(context)
        drawn += torch.randperm(5).tolist()
        pause(context)
    return note(*drawn)


def test_each_virtual_worker_draws_what_it_would_draw_alone() -> None:
    together, _ = play(job(draw, draw, draw), Simulator(network=INSTANT))
    for rank in range(3):
        programs = [silent, silent, silent]
        programs[rank] = draw
        alone, _ = play(job(*programs), Simulator(network=INSTANT))
        name = f"worker/{rank}"
        assert alone.results[name] == together.results[name]
    assert len({together.results[f"worker/{rank}"].numbers for rank in range(3)}) == 3


def test_a_run_leaves_the_caller_generators_and_threads_as_they_were() -> None:
    rng.seed_everything(1)
    expected = (torch.rand(3).tolist(), np.random.randn(3).tolist(), random.random())
    rng.seed_everything(1)
    threads = torch.get_num_threads()
    play(job(draw, draw), Simulator(network=INSTANT))
    assert (torch.rand(3).tolist(), np.random.randn(3).tolist(), random.random()) == expected
    assert torch.get_num_threads() == threads


def test_grad_mode_and_autocast_belong_to_each_program() -> None:
    seen: dict[str, list[Any]] = {}

    def look(context: WorkerContext) -> None:
        mine = seen.setdefault(context.port.name, [])
        for _ in range(3):
            mine.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            pause(context)

    def without_grad(context: WorkerContext) -> None:
        with torch.no_grad():
            look(context)
        assert torch.is_grad_enabled()

    def mixed(context: WorkerContext) -> None:
        with torch.autocast("cpu", torch.float16):
            look(context)
        assert not torch.is_autocast_enabled("cpu")

    play(job(look, without_grad, mixed), Simulator(network=INSTANT))
    assert seen["worker/0"] == [(True, False, torch.bfloat16)] * 3
    assert seen["worker/1"] == [(False, False, torch.bfloat16)] * 3
    assert seen["worker/2"] == [(True, True, torch.float16)] * 3
    assert torch.is_grad_enabled()


def test_autocast_of_one_program_keeps_no_stale_weights_of_another() -> None:
    def inside(context: WorkerContext) -> None:
        with torch.autocast("cpu"):
            pause(context, 10.0)

    def train(context: WorkerContext) -> None:
        layer = torch.nn.Linear(4, 4)
        x = torch.ones(1, 4)
        for _ in range(3):
            with torch.autocast("cpu"):
                out = layer(x)
            assert torch.equal(out, torch.nn.functional.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16()))
            with torch.no_grad():
                layer.weight.add_(1.0)
            pause(context)

    play(job(inside, train), Simulator(network=INSTANT))


def test_grad_mode_of_a_coroutine_stays_its_own_across_an_await() -> None:
    async def work(port: Port, grad: bool) -> None:
        with torch.set_grad_enabled(grad):
            for _ in range(3):
                await port.sleep(1.0)
                assert torch.is_grad_enabled() is grad
        assert torch.is_grad_enabled()

    def program(context: WorkerContext) -> None:
        context.perform(work(context.port, bool(rank_of(context.port.name))))

    play(job(program, program), Simulator(network=INSTANT))


def test_inference_mode_around_a_conversation_is_refused() -> None:
    def program(context: WorkerContext) -> None:
        with torch.inference_mode():
            pause(context)

    with pytest.raises(WorkloadError, match=r"inside torch\.inference_mode"):
        play(job(program, silent), Simulator(network=INSTANT))


def test_a_conversation_inside_backward_is_refused() -> None:
    def program(context: WorkerContext) -> None:
        weight = torch.ones(1, requires_grad=True)
        weight.register_post_accumulate_grad_hook(lambda _: pause(context))
        weight.sum().backward()

    with pytest.raises(WorkloadError, match=r"inside backward\(\)"):
        play(job(program, silent), Simulator(network=INSTANT))


def test_what_a_program_raises_ends_the_run_with_its_name_and_its_own_traceback() -> None:
    def users_mistake() -> None:
        raise ValueError("the loader is empty")

    with pytest.raises(WorkerFailed, match=r"worker/1 failed: ValueError: the loader is empty") as caught:
        play(job(silent, lambda context: users_mistake()), Simulator(network=INSTANT))
    assert caught.value.actor == "worker/1"
    assert "in users_mistake" in caught.value.trace
    assert "core/simulator/program.py" not in caught.value.trace


def test_what_a_server_raises_ends_the_run_with_its_name() -> None:
    async def broken(port: Port) -> None:
        await port.receive("x")
        raise ValueError("cannot merge")

    def speak(context: WorkerContext) -> None:
        async def once() -> None:
            await context.port.send("server/0", note())
            await context.port.receive("response", "server/0")

        context.perform(once())

    with pytest.raises(WorkerFailed, match="server/0 failed: ValueError: cannot merge"):
        play(job(speak, servers=(broken,)), Simulator(network=PLAIN))


def test_our_own_errors_pass_through_as_they_are() -> None:
    refusal = CompositionError("these do not meet")

    def program(context: WorkerContext) -> None:
        raise refusal

    with pytest.raises(CompositionError) as caught:
        play(job(program), Simulator(network=INSTANT))
    assert caught.value is refusal
    assert caught.value.__cause__ is None


def test_everything_is_closed_when_a_run_fails() -> None:
    closed: list[str] = []

    def waits(context: WorkerContext) -> None:
        async def background() -> None:
            try:
                await context.port.receive("never")
            finally:
                closed.append("background")

        async def wait() -> None:
            try:
                await context.port.spawn("background", background())
                await context.port.receive("never")
            finally:
                closed.append("coroutine")

        try:
            context.perform(wait())
        finally:
            closed.append("program")
            context.perform(wait())  # a killed program can do no more

    def fails(context: WorkerContext) -> None:
        pause(context)
        raise ValueError("enough")

    async def serve(port: Port) -> None:
        try:
            await port.receive("never")
        finally:
            closed.append("server")

    with pytest.raises(WorkerFailed, match="worker/1 failed"):
        play(job(waits, fails, silent, servers=(serve,)), Simulator(network=INSTANT))
    assert sorted(closed) == ["background", "coroutine", "program", "server"]
    gc.collect()


def test_what_was_spawned_ends_with_its_program_and_servers_with_the_last_one() -> None:
    beats: list[float] = []
    closed: list[str] = []

    def program(context: WorkerContext) -> None:
        async def heartbeat() -> None:
            while True:
                beats.append(context.port.now())
                await context.port.sleep(1.0)

        async def start() -> None:
            await context.port.spawn("heartbeat", heartbeat())

        context.perform(start())
        pause(context, 3.5)

    async def serve(port: Port) -> None:
        try:
            await port.receive("never")
        finally:
            closed.append(port.name)

    ending, _ = play(job(program, lambda context: pause(context, 10.0), servers=(serve,)), Simulator(network=INSTANT))
    assert beats == [0.0, 1.0, 2.0, 3.0]
    assert closed == ["server/0"]
    assert ending.seconds == 10.0


def test_a_failure_in_what_was_spawned_ends_the_run() -> None:
    def program(context: WorkerContext) -> None:
        async def broken() -> None:
            raise ValueError("in the background")

        async def start() -> None:
            await context.port.spawn("helper", broken())
            await context.port.sleep(1.0)

        context.perform(start())

    with pytest.raises(WorkerFailed, match="worker/0 failed: ValueError: in the background"):
        play(job(program), Simulator(network=INSTANT))


def test_an_interruption_passes_through_and_closes_the_others() -> None:
    closed: list[str] = []

    def interrupted(context: WorkerContext) -> None:
        pause(context)
        raise KeyboardInterrupt

    def waits(context: WorkerContext) -> None:
        try:
            pause(context, 10.0)
        finally:
            closed.append(context.port.name)

    with pytest.raises(KeyboardInterrupt):
        play(job(interrupted, waits), Simulator(network=INSTANT))
    assert closed == ["worker/1"]


def test_a_program_that_exits_ends_the_run_with_its_name() -> None:
    def program(context: WorkerContext) -> None:
        sys.exit(3)

    with pytest.raises(WorkerFailed, match=r"worker/0 failed: it called sys\.exit\(3\)"):
        play(job(program), Simulator(network=INSTANT))


def test_an_interruption_before_the_first_step_of_a_coroutine_leaves_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = Program.run

    def interrupted(self: Program, value: Any, error: BaseException | None = None) -> Any:
        if inspect.iscoroutine(going_on(self, value, error)):
            raise KeyboardInterrupt

    monkeypatch.setattr(Program, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(job(lambda context: context.perform(nothing())), Simulator(network=PLAIN))
    gc.collect()


async def nothing() -> None:
    """A coroutine that is never started."""
