"""Tensors that every worker launches in an order of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from collectives import run_collective
from endpoints import context_of, worker_end

from polyrhythm.codec import Cast, Identity
from polyrhythm.consistency import BulkSynchronous
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean
from polyrhythm.topology import AllReduce, Direct, Keyed, Server

LAYOUT = Layout(("a", "b", "c", "d"), ((2, 3), (3,), (5,), ()))
WORKERS = 3


def rounds(topology: Any, count: int, codec: Any = None, pause: float = 1e-4) -> list[tuple[torch.Tensor, ...]]:
    """The totals of `count` rounds at each worker, whose tensors come in any order and at any time."""
    agreement = Agreement(Payload.GRADIENT, BulkSynchronous(), codec or Identity(), Mean())
    given = torch.arange(float(LAYOUT.numel))

    async def live(context, group):  # type: ignore[no-untyped-def]
        channel = topology.channel(agreement, worker_end(context.port, WORKERS))
        model_state = ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Mean(), context_of(WORKERS), None)
        await channel.establish(InitialState(model_state, ""))
        draw, totals = np.random.default_rng(group.rank), []
        for turn in range(count):
            parts = list(reversed(torch.split(given + turn + group.rank, [6, 3, 5, 1])))
            for number in draw.permutation(len(parts)):
                await channel.offers.buckets.exchange_bucket(int(number), parts[number])
                await context.port.sleep(pause * draw.random())
            totals.append((await channel.offers.buckets.conclude((0.1,))).contributions[0].value)
        return totals

    return run_collective(WORKERS, live)[0]


def test_a_thousand_rounds_in_shuffled_orders_never_deadlock_and_sum_up() -> None:
    found = rounds(Keyed(AllReduce(Direct())), 1000)
    for totals in found:
        for turn, total in enumerate(totals):
            assert torch.equal(total, WORKERS * (torch.arange(float(LAYOUT.numel)) + turn) + 3)


def test_codecs_encode_each_tensor() -> None:
    for totals in rounds(Keyed(), 3, Cast(torch.bfloat16)):
        assert torch.equal(totals[0], 3 * torch.arange(float(LAYOUT.numel)) + 3)


def test_only_sums_have_keys() -> None:
    with pytest.raises(CompositionError, match=r"Keyed\(Server.*give it AllReduce"):
        Keyed(Server())  # type: ignore[arg-type]
