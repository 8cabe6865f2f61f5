"""Processes that stay join one run after another, with some of them replaced by new ones; here they are the workers of an outer run."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ports import reserved_port
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.errors import PolyrhythmError, WorkerFailed, WorkloadError

REPLACED, ROUNDS = 3, 21
"""Ranks whose processes are replaced in turn, one before each round but the first; one more rank keeps its process."""
STAYS = REPLACED + ROUNDS - 1


async def no_service(port: Port, record: Recorder) -> None:
    return None


def processes(count: int, program: Callable[[WorkerContext, int], Message | None]) -> dict[str, Message | None]:
    """What `program`, given the context and number of each, returned in that many processes, with one port of loopback to meet at."""
    with reserved_port() as port:

        def inside(context: WorkerContext) -> Message | None:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            return program(context, rank_of(context.port.name))

        return Processes(cuda=False).execute(Job(count, 0, inside, no_service, lambda name: False), lambda event: None).results


def join(rank: int, workers: int, system: str = "allreduce") -> pr.Worker:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(workers))
    return pr.join(system, seed=1)


def train(joined: pr.Worker, after: Callable[[int], None] = lambda step: None) -> None:
    model = network()
    model, optimizer = joined.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in joined.batches(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        after(joined.clock)
    joined.report(rank=joined.rank)


async def go(port: Port, other: int) -> None:
    await port.send(worker(other), Message("go"))


async def wait(port: Port) -> None:
    await port.receive("go")


def held() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def part(number: int) -> tuple[int, range, int | None]:
    """The rank of a process, the rounds that it takes part in, and who takes its place then."""
    if number == STAYS:
        return REPLACED, range(ROUNDS), None
    rank, first = (number, 0) if number < REPLACED else ((number - REPLACED + 1) % REPLACED, number - REPLACED + 1)
    last = next((turn for turn in range(first + 1, ROUNDS) if turn % REPLACED == rank), ROUNDS)
    return rank, range(first, last), REPLACED + last - 1 if last < ROUNDS else None


@pytest.mark.long
def test_twenty_times_all_leave_and_join_again_with_one_replaced_each_time() -> None:
    def program(context: WorkerContext, number: int) -> Message:
        rank, rounds, successor = part(number)
        if rounds[0] > 0:
            context.perform(wait(context.port))
        plain, kept, seen = sys.exit, [], []
        for turn in rounds:
            joined = join(rank, REPLACED + 1, "ssp" if turn == 13 else "gossipgrad" if turn % 5 == 4 else "allreduce")
            train(joined)
            run = joined.leave()
            kept.append(held())
            seen.append([run.summary.steps, run.summary.samples, run.final, run.summary.weights_sha256])
            assert sys.exit is plain
        if successor is not None:
            context.perform(go(context.port, successor))
        return Message("end", text=json.dumps([rank, rounds[0], kept, seen]))

    results = [message for message in processes(STAYS + 1, program).values() if message is not None]
    assert len(results) == STAYS + 1
    shas: dict[int, set[str]] = {}
    for rank, first, kept, seen in (json.loads(result.text) for result in results):
        assert [final for _, _, final, _ in seen] == [{"rank": rank}] * len(seen)
        if len(seen) == ROUNDS:
            assert len({tuple(each) for each in kept[1:]}) == 1, f"neither descriptors nor threads grow from one run to the next: {kept}"
        for turn, (steps, samples, _, sha) in enumerate(seen, start=first):
            assert (steps, samples) == (seen[0][0], seen[0][1])
            if rank == 0:
                shas.setdefault(turn, set()).add(sha)
    assert sorted(shas) == list(range(ROUNDS))


def test_after_a_kill_the_survivors_and_a_new_process_join_again() -> None:
    def program(context: WorkerContext, number: int) -> Message:
        if number == 3:  # takes the place of the one that is killed
            context.perform(wait(context.port))
            joined = join(1, 3)
            train(joined)
            return Message("end", text=str(joined.leave().summary.steps))
        joined = join(number, 3)
        with pytest.raises(PolyrhythmError, match="worker/1 failed: its connections were lost") as raised:
            train(joined, lambda step: os.kill(os.getpid(), signal.SIGKILL) if (step, number) == (2, 1) else None)
        with pytest.raises(type(raised.value), match="worker/1 failed"):
            joined.leave()
        with pytest.raises(WorkloadError, match="has left its run already"):
            joined.leave()
        if number == 0:
            context.perform(go(context.port, 3))
        joined = join(number, 3)
        train(joined)
        return Message("end", text=str(joined.leave().summary.steps))

    texts = {name: message.text for name, message in processes(4, program).items() if message is not None}
    assert set(texts) == {worker(0), worker(2), worker(3)}
    assert len(set(texts.values())) == 1


def test_a_failed_run_is_given_back_when_the_next_is_joined() -> None:
    def program(context: WorkerContext, number: int) -> Message:
        joined = join(number, 2)
        with pytest.raises(WorkloadError, match=r"in a run already: call worker\.leave\(\)"):
            join(number, 2)
        joined.barrier()
        if number == 1:
            with pytest.raises(KeyError):
                train(joined, lambda step: {}[step])
            with pytest.raises(PolyrhythmError, match="worker/1 finished after 1 step"):
                joined.leave()
        else:
            with pytest.raises(PolyrhythmError, match="worker/1 finished after 1 step"):
                train(joined)
        joined = join(number, 2)
        train(joined)
        return Message("end", text=str(joined.leave().summary.steps > 0))

    assert [message and message.text for message in processes(2, program).values()] == ["True"] * 2


def test_a_worker_that_dies_while_it_joins_is_named_and_the_others_may_try_again() -> None:
    def program(context: WorkerContext, number: int) -> Message:
        if number == 2:
            context.perform(wait(context.port))
            joined = join(1, 2)
        elif number == 1:
            from polyrhythm.core.training import join as module

            module.locate = lambda rendezvous: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,return-value]
            join(1, 2)
        else:
            with pytest.raises(WorkerFailed, match="worker/1 failed: its process ended, or lost its connection, while it joined the run"):
                join(0, 2)
            context.perform(go(context.port, 2))
            joined = join(0, 2)
        train(joined)
        joined.leave()
        return Message("end")

    assert [name for name, message in processes(3, program).items() if message is not None] == [worker(0), worker(2)]


def test_a_run_of_pr_run_is_not_left() -> None:
    def leaving(given: pr.Worker) -> None:
        train(given)
        given.leave()

    with pytest.raises(WorkloadError, match=r"worker\.leave\(\) is for scripts that called pr\.join"):
        pr.run(leaving, workers=1, on=pr.Simulator(), seed=1)
