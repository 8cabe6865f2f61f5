"""Collectives in closed form have the values, times and bytes of messages, on an even network, whenever the ranks come to them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated
from polyrhythm.core.simulator.collectives import ClosedForm
from polyrhythm.process_group.messages.algorithms import MEMBERS

from .gathers import all_gather, reduce_scatter

N = 60_000


def all_reduce(own: Tensor, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> Tensor:
    dist.all_reduce(own, op)
    return own


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "all_reduce": all_reduce,
    "average": lambda own: all_reduce(own, dist.ReduceOp.AVG),
    "most": lambda own: all_reduce(own, dist.ReduceOp.MAX),
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
}
Found = dict[tuple[str, int], tuple[Tensor, float, int]]


def run(backend: str, ranks: int, numel: int, spread: float, on: pr.Simulator) -> Found:
    """By kind and rank: what it has, when, and the bytes that it has sent."""
    results: dict[tuple[str, int], tuple[Tensor, float]] = {}

    def main() -> None:
        dist.init_process_group(backend)
        rank = dist.get_rank()
        own = torch.randn(numel // ranks * ranks, generator=torch.Generator().manual_seed(rank))
        for number, (kind, issue) in enumerate(KINDS.items()):
            time.sleep(10 * (number + 1) + spread * (rank * rank % 5) - time.monotonic())
            results[kind, rank] = issue(own.clone()), time.monotonic()

    events = [event for event in pr.simulate(main, ranks=ranks, on=on).outcome.events if isinstance(event, Communicated)]
    sent = {rank: [event.nbytes for event in events if event.actor == f"worker/{rank}"] for rank in range(ranks)}
    kinds = list(KINDS)
    return {(kind, rank): (*found, sent[rank][kinds.index(kind)]) for (kind, rank), found in results.items()}


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:Attempted to get default timeout for nccl")
@pytest.mark.parametrize("spread", [0.0, 0.013])
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("backend", MEMBERS)
def test_closed_forms_have_the_values_times_and_bytes_of_messages(backend: str, ranks: int, spread: float) -> None:
    close = 1e-3 if backend == "gloo" else 1e-9  # notices take a little of the lines
    messages = run(backend, ranks, N, spread, pr.Simulator())
    closed = run(backend, ranks, N, spread, pr.Simulator(collectives=ClosedForm()))
    assert messages.keys() == closed.keys()
    for (kind, rank), (value, end, nbytes) in messages.items():
        began = 10 * (list(KINDS).index(kind) + 1)
        assert torch.equal(closed[kind, rank][0], value)
        assert closed[kind, rank][1] - began == pytest.approx(end - began, rel=close), (kind, rank)
        assert closed[kind, rank][2] == nbytes, (kind, rank)
