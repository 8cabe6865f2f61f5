"""Reductions in closed form: one sum, one time, one account of bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator.collectives import ClosedForm
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.hardware.changes import ChangeEntry

from .scenes import PLAIN, Program, job, play


class Straight:
    """A schedule of one message per worker, all at once."""

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        return latency + workers * nbytes / bandwidth

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        return 101, workers


def reduces(responses: list[tuple[float, Tensor | None]], workers: int, topic: str = "sum", times: int = 1) -> Program:
    def program(context: WorkerContext) -> None:
        port = context.port

        async def reduce() -> None:
            rank = rank_of(port.name)
            await port.sleep(rank)
            for _ in range(times):
                response = await port.reduce(torch.full((250,), 10.0**rank), topic, Group.of_workers(workers, rank), Straight())
                responses.append((port.now(), response))

        context.perform(reduce())

    return program


def test_all_get_the_sum_when_the_last_has_come_and_the_schedule_has_passed() -> None:
    responses: list[tuple[float, Tensor | None]] = []
    ending, _ = play(job(*[reduces(responses, 3)] * 3), Simulator(network=PLAIN, collectives=ClosedForm()))
    assert [time for time, _ in responses] == [2.0 + 0.5 + 3 * 1.0] * 3
    assert all(total is not None and torch.equal(total, torch.full((250,), 111.0)) for _, total in responses)
    assert len({id(total) for _, total in responses}) == 3, "each may write to its own"
    assert (ending.bytes_sent, ending.messages_sent) == (101, 3)


def test_messages_are_the_rule() -> None:
    responses: list[tuple[float, Tensor | None]] = []
    play(job(*[reduces(responses, 3)] * 3), Simulator(network=PLAIN))
    assert [total for _, total in responses] == [None] * 3


def test_a_reduction_to_which_not_all_come_is_a_deadlock() -> None:
    responses: list[tuple[float, Tensor | None]] = []
    programs = [reduces(responses, 3), reduces(responses, 3), reduces(responses, 3, "other")]
    with pytest.raises(DeadlockError, match="worker/0 waits for the reduction 'sum', which 2 of 3 workers have joined"):
        play(job(*programs), Simulator(network=PLAIN, collectives=ClosedForm()))


def test_a_worker_outside_of_the_reduction_is_refused() -> None:
    with pytest.raises(CompositionError, match="worker/1 joined the reduction 'sum' of 1 members with rank 1"):
        play(job(*[reduces([], 1)] * 2), Simulator(network=PLAIN, collectives=ClosedForm()))


def test_a_network_that_changes_in_time_or_varies_or_has_a_shared_medium_is_refused() -> None:
    (site,) = PLAIN.sites
    for network, what in (
        (replace(PLAIN, changes=(ChangeEntry(at=1.0, host=0, egress=10.0),)), "changes in time"),
        (replace(PLAIN, sites=(replace(site, medium=50.0),)), "has a shared medium"),
        (replace(PLAIN, sites=(replace(site, latency=1.0, jitter=0.5),)), "has jitter"),
    ):
        with pytest.raises(CompositionError, match=f"{what}, and no closed form sees that"):
            Simulator(network=network, collectives=ClosedForm())
